/** Domains of taints that other controllers set and remove. */

/** The part of a key before `/`; `""` without a `/`. */
export function domainOf(key: string): string {
  return key.slice(0, Math.max(0, key.indexOf("/")));
}

/** Domains for startup taints: of the Kubernetes convention, the node readiness controller and cluster-autoscaler. */
export const STARTUP_DOMAINS: ReadonlySet<string> = new Set([
  "startup.k8s.io",
  "readiness.k8s.io",
  "startup-taint.cluster-autoscaler.kubernetes.io",
  "ignore-taint.cluster-autoscaler.kubernetes.io",
]);

/** Domains of the kubelet, the node controller, cloud controllers and kubeadm. */
export const DOMAINS_OF_KUBERNETES: ReadonlySet<string> = new Set([
  "node.kubernetes.io",
  "node-role.kubernetes.io",
  "node.cloudprovider.kubernetes.io",
]);
