/** A node: a process namespace of its own on a network namespace, in which containerd, a kubelet and kube-proxy run. */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { eventually } from "@berth/testcluster";
import { run } from "../../scripts/run.ts";
import { type Address, cable, POD_NETWORK, plugIn } from "./network.ts";
import { cniConfig, containerdConfig, kubeletConfig, REGISTRY_HOSTS } from "./node-config.ts";
import type { Programs } from "./programs.ts";

export interface NodeOptions extends Address {
  /** What survives a reboot: images, containers, and what the kubelet keeps. */
  readonly disk: string;
  /** The cgroup of all its containers. */
  readonly cgroup: string;
  readonly programs: Programs;
  readonly kubeconfigs: { readonly kubelet: string; readonly kubeProxy: string };
  /** `key=value`, which the kubelet registers. */
  readonly labels: string;
}

/** The first process of a node. Mounts end with it. `/proc` is the old one until it is mounted, and gives the pid there. */
const BOOT = `
exec 2> "$DISK/log/boot.log"
read -r pid rest < /proc/self/stat
mount -t proc proc /proc
mount --bind "$DISK/lib" /var/lib
mount --bind "$DISK/log" /var/log
mount -t tmpfs tmpfs /run
cp -r "$DISK/etc/." /run
echo "$NAME" > /proc/sys/kernel/hostname
mount --bind /run/boot_id /proc/sys/kernel/random/boot_id
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables
echo "$pid" > "$DISK/pid"
sleep infinity & while :; do wait; done`;

/** Runs a program again when it ends, as systemd does: a kubelet ends when containerd is not there yet. */
const DAEMON = `
echo $$ > "/run/$0.pid"
trap 'kill $!; exit' TERM
while :; do
  "$@" >> "/var/log/$0.log" 2>&1 &
  wait
  sleep 1
done`;

export class RealNode {
  readonly name: string;
  readonly disk: string;
  readonly #options: NodeOptions;
  /** Of its first process. */
  #pid = 0;

  constructor(options: NodeOptions) {
    this.name = options.name;
    this.disk = options.disk;
    this.#options = options;
  }

  /** Switches it on. Its boot id is new, its disk is as it was. */
  async boot(): Promise<void> {
    const { name, disk, cgroup, pods, programs, kubeconfigs } = this.#options;
    const etc = join(disk, "etc");
    for (const folder of ["lib", "log", "etc/cni", "etc/certs.d/_default"])
      await mkdir(join(disk, folder), { recursive: true });
    const files: Readonly<Record<string, string>> = {
      boot_id: `${randomUUID()}\n`,
      "containerd.toml": containerdConfig(programs),
      "certs.d/_default/hosts.toml": REGISTRY_HOSTS,
      "cni/pods.conflist": cniConfig(pods),
      "kubelet.yaml": kubeletConfig(cgroup),
      "kubelet.kubeconfig": kubeconfigs.kubelet,
      "kube-proxy.kubeconfig": kubeconfigs.kubeProxy,
    };
    for (const [file, text] of Object.entries(files)) await writeFile(join(etc, file), text, { mode: 0o600 });
    await rm(join(disk, "pid"), { force: true });
    const namespaces = ["--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child"];
    spawn("unshare", [...namespaces, "/bin/sh", "-euc", BOOT], {
      stdio: "ignore",
      env: { ...process.env, NAME: name, DISK: disk },
    }).unref();
    this.#pid = await eventually(async () => {
      const pid = Number(await readFile(join(disk, "pid"), "utf8"));
      if (!(pid > 1)) throw new Error(`${name} has not booted`);
      return pid;
    });
    await plugIn(this.#options, this.#pid);
    this.#daemon("containerd", [programs.containerd, "--config=/run/containerd.toml"]);
    this.#daemon("kube-proxy", [
      programs.kubernetes,
      "kube-proxy",
      "--kubeconfig=/run/kube-proxy.kubeconfig",
      `--hostname-override=${name}`,
      "--proxy-mode=nftables",
      `--cluster-cidr=${POD_NETWORK}`,
      // Limits of connections belong to the machine, which shares its kernel with the node.
      "--conntrack-max-per-core=0",
      "--conntrack-tcp-timeout-established=0s",
      "--conntrack-tcp-timeout-close-wait=0s",
    ]);
    this.startKubelet();
  }

  startKubelet(): void {
    const { name, ip, labels, programs } = this.#options;
    this.#daemon("kubelet", [
      programs.kubernetes,
      "kubelet",
      "--config=/run/kubelet.yaml",
      "--kubeconfig=/run/kubelet.kubeconfig",
      `--hostname-override=${name}`,
      `--node-ip=${ip}`,
      `--node-labels=${labels}`,
    ]);
  }

  /** The containers run on. */
  async stopKubelet(): Promise<void> {
    await run("nsenter", [...this.#inside(), "/bin/sh", "-c", 'kill "$(cat /run/kubelet.pid)"']);
  }

  /** Pulls the cable. */
  cut(): Promise<void> {
    return cable(this.#options, "down");
  }

  mend(): Promise<void> {
    return cable(this.#options, "up");
  }

  /** What its pods send to this address is lost, and nothing says so. */
  async lose(ip: string): Promise<void> {
    await run("nsenter", [...this.#inside(), "ip", "route", "add", "blackhole", ip]);
  }

  async findAgain(ip: string): Promise<void> {
    await run("nsenter", [...this.#inside(), "ip", "route", "delete", "blackhole", ip]);
  }

  /** The power fails: nothing says goodbye. The kernel ends all processes of the node, and with them its mounts. */
  async kill(): Promise<void> {
    await this.cut();
    process.kill(this.#pid, "SIGKILL");
  }

  #daemon(name: string, command: readonly string[]): void {
    spawn("nsenter", [...this.#inside(), "/bin/sh", "-c", DAEMON, name, ...command], {
      stdio: "ignore",
      env: this.#options.programs.env,
    }).unref();
  }

  #inside(): readonly string[] {
    return ["--target", String(this.#pid), "--mount", "--pid", "--net", "--uts", "--ipc", "--"];
  }
}
