/** Domains of taints that others set and take off. */

/** The part of a key before `/`; empty for none. */
export function domainOf(key: string): string {
  return key.slice(0, Math.max(0, key.indexOf("/")));
}

/** Those that exist for startup taints: of the contract, the node readiness controller and cluster-autoscaler. */
export const STARTUP_DOMAINS: ReadonlySet<string> = new Set([
  "startup.k8s.io",
  "readiness.k8s.io",
  "startup-taint.cluster-autoscaler.kubernetes.io",
  "ignore-taint.cluster-autoscaler.kubernetes.io",
]);

/** Those of kubelet, the node controller, cloud controllers and kubeadm, for reasons of their own. */
export const DOMAINS_OF_KUBERNETES: ReadonlySet<string> = new Set([
  "node.kubernetes.io",
  "node-role.kubernetes.io",
  "node.cloudprovider.kubernetes.io",
]);
