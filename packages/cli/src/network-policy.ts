/** The NetworkPolicy that allows only API servers to reach the webhook. */
import { isIP } from "node:net";
import type { NetworkPolicy, ObjectMeta } from "@berth/kube";
import { CommandError, exitCodes } from "./exit-codes.ts";

/**
 * Metrics and probes stay open to all clients: otherwise the policy would block scrapers.
 *
 * @param cidrs of the API servers: `10.0.0.0/28`, `fd00::1/128`.
 * @throws CommandError for an invalid CIDR.
 */
export function webhookNetworkPolicy(
  { name = "", namespace = "", labels = {} }: ObjectMeta,
  cidrs: readonly string[],
): NetworkPolicy {
  for (const cidr of cidrs) {
    const [, address = "", bits] = /^([^/]+)\/(\d{1,3})$/.exec(cidr) ?? [];
    if (isIP(address) === 0 || Number(bits) > (isIP(address) === 4 ? 32 : 128))
      throw new CommandError(`--api-server-cidr ${cidr}: expected addresses as 10.0.0.0/28`, exitCodes.usage);
  }
  const port = (name: string): object => ({ protocol: "TCP", port: name });
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: `${name}-webhook`, namespace, labels },
    spec: {
      podSelector: { matchLabels: labels },
      policyTypes: ["Ingress"],
      ingress: [
        { ports: [port("webhook")], from: cidrs.map((cidr) => ({ ipBlock: { cidr } })) },
        { ports: [port("metrics"), port("health")] },
      ],
    },
  };
}
