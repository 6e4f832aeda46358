/** The keys of agent-substrate PR 134, byte for byte, so that its clusters work unchanged. */
export const originalFootprint = {
  podLabel: "ate.dev/worker-pool-uid",
  poolLabel: "ate.dev/worker-pool",
  nodeLabel: { key: "ate.dev/atelet", value: "true" },
  claimPrefix: "ate.dev/claim.",
  finalizer: "ate.dev/release-node-claims",
  owner: { group: "ate.dev", kind: "WorkerPool" },
  owners: { group: "ate.dev", version: "v1alpha1", resource: "workerpools" },
  /** The container sets no resources and no security context. */
  waitContainer: { name: "wait-for-atelet", image: "busybox:1.36" },
  port: 8085,
  agent: { namespace: "ate-system", name: "atelet" },
} as const;
