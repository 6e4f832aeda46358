/** Specs of NodeFootprints that our schema and the API server have to judge alike. */
import type { NodeFootprintSpec } from "../../footprint/document.ts";

const workloads = [{ podSelector: { matchLabels: { app: "a" } } }];
const node = { label: { key: "example.com/agent" } };
const resource = { group: "ate.dev", version: "v1alpha1", resource: "workerpools" };

export const validFootprints: readonly { readonly what: string; readonly spec: NodeFootprintSpec }[] = [
  { what: "a preset alone", spec: { preset: "agent-substrate/pr-134" } },
  { what: "workloads and a label", spec: { workloads, node } },
  { what: "of a preset's hold the timeout alone", spec: { preset: "gpu", hold: { timeout: "30s" } } },
  {
    what: "the rest of what a preset says",
    spec: {
      preset: "agent-substrate/pr-134",
      group: { by: "PodLabel" },
      node: { label: { value: "yes" }, claims: { value: "x" } },
      hold: {},
    },
  },
  {
    what: "a container that is told of no settings",
    spec: { workloads, node, wait: { container: { securityContext: {}, resources: {} } } },
  },
  {
    what: "all there is",
    spec: {
      preset: "csi",
      workloads: [
        {
          podSelector: { matchExpressions: [{ key: "a", operator: "Exists" }] },
          namespaceSelector: { matchLabels: { team: "a" } },
          requests: ["nvidia.com/gpu"],
          csiDrivers: ["efs.csi.aws.com"],
          ignorePhases: ["Succeeded"],
          terminating: "Release",
        },
      ],
      group: {
        by: "PodLabel",
        label: "a.b/c",
        owner: { group: "apps", kind: "Deployment" },
        verifyOwner: false,
      },
      node: {
        label: { key: "x.node-restriction.kubernetes.io/agent", value: "yes" },
        claims: { annotationPrefix: "ate.dev/claim.", value: "" },
        foreign: "Report",
        excludeSelector: { matchLabels: { type: "virtual" } },
      },
      release: { delay: "1m30s" },
      hold: {
        resource,
        finalizer: "ate.dev/release-node-claims",
        onDelete: "DeleteOwned",
        ownedResources: [{ group: "", version: "v1", resource: "pods" }],
        timeout: "1h",
      },
      wait: {
        inject: "Webhook",
        container: {
          name: "w",
          image: "busybox:1.36",
          timeout: "30s",
          resources: {},
          securityContext: {},
        },
        port: 8085,
      },
      agent: { daemonSet: { namespace: "ns", name: "ds" }, nodeSelector: "Manage" },
    },
  },
];

export const invalidFootprints: readonly {
  readonly what: string;
  readonly spec: unknown;
  readonly field: string;
}[] = [
  { what: "neither preset nor label", spec: { workloads }, field: "spec" },
  { what: "neither preset nor workloads", spec: { node }, field: "spec" },
  { what: "an unknown preset", spec: { preset: "apm" }, field: "spec.preset" },
  { what: "no workloads at all", spec: { workloads: [], node }, field: "spec.workloads" },
  { what: "a field that there is not", spec: { preset: "gpu", more: 1 }, field: "spec.more" },
  {
    what: "a key that is none",
    spec: { workloads, node: { label: { key: "a b" } } },
    field: "spec.node.label.key",
  },
  {
    what: "a value that is none",
    spec: { workloads, node: { label: { key: "a", value: "-" } } },
    field: "spec.node.label.value",
  },
  {
    what: "an empty prefix",
    spec: { preset: "gpu", node: { claims: { annotationPrefix: "" } } },
    field: "spec.node.claims.annotationPrefix",
  },
  {
    what: "a delay that is none",
    spec: { preset: "gpu", release: { delay: "soon" } },
    field: "spec.release.delay",
  },
  { what: "a label without a key", spec: { workloads, node: { label: { value: "a" } } }, field: "spec" },
  {
    what: "a version that is none",
    spec: { preset: "gpu", hold: { resource: { ...resource, version: "1" }, finalizer: "a.b/c" } },
    field: "spec.hold.resource.version",
  },
  {
    what: "a security context of its own",
    spec: { preset: "gpu", wait: { container: { securityContext: { runAsUser: "7" } } } },
    field: "spec.wait.container.securityContext",
  },
  { what: "a port beyond all", spec: { preset: "gpu", wait: { port: 65_536 } }, field: "spec.wait.port" },
  {
    what: "a DaemonSet without a namespace",
    spec: { preset: "gpu", agent: { daemonSet: { name: "a" } } },
    field: "spec.agent.daemonSet.namespace",
  },
];
