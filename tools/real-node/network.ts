/** One bridge, and on it a network namespace for each node. The control plane listens on the bridge itself. */
import { shell } from "../../scripts/run.ts";

/** The address of the registry, and of the API server if there is one. */
export const HUB = "10.99.0.1";
/** Further ones, for the API servers of a fleet. */
export const PLANES: readonly string[] = [2, 3, 4, 5].map((it) => `10.99.0.${it}`);
export const POD_NETWORK = "10.244.0.0/16";

export interface Address {
  readonly name: string;
  readonly ip: string;
  /** The addresses of its pods. */
  readonly pods: string;
}

export const addressOf = (index: number): Address => ({
  name: `node-${index}`,
  ip: `10.99.0.${10 + index}`,
  pods: `10.244.${index}.0/24`,
});

/** This process has a network of its own already. */
export async function createBridge(): Promise<void> {
  await shell(`
    ip link set lo up
    ip link add hub type bridge
    for ip in ${[HUB, ...PLANES].join(" ")}; do ip address add $ip/24 dev hub; done
    ip link set hub up
    echo 1 > /proc/sys/net/ipv4/ip_forward`);
}

/** Connects the network of a process. That of an earlier boot may still be there. */
export async function plugIn({ name, ip, pods }: Address, pid: number): Promise<void> {
  const inside = `nsenter --target ${pid} --net ip`;
  await shell(`
    ip link delete ${name} 2> /dev/null || true
    ip link add ${name} type veth peer name eth0 netns ${pid}
    ip link set ${name} master hub up
    ${inside} link set lo up
    ${inside} address add ${ip}/24 dev eth0
    ${inside} link set eth0 up
    ${inside} route add default via ${HUB}
    ip route replace ${pods} via ${ip}`);
}

/** Pulls the cable, or puts it in again. Neither side is told that connections ended. */
export async function cable({ name }: Address, state: "up" | "down"): Promise<void> {
  await shell(`ip link set ${name} ${state}`);
}
