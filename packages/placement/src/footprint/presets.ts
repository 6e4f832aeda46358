/** What the presets of `NodeFootprint` fill in. Explicit fields of a document win: `complete.ts`. */
import { originalFootprint } from "../api/agent-substrate.ts";
import type { FootprintPreset, FootprintWorkload, NodeFootprintSpec } from "./document.ts";

export interface Preset {
  /** Fields that a document with this preset can omit. */
  readonly spec: NodeFootprintSpec;
  /** The field that each workload of the document must give: a preset cannot know it. */
  readonly needs?: "podSelector" | "csiDrivers";
}

/** Common fields of the two presets for agent-substrate. */
const substrate = {
  node: {
    label: originalFootprint.nodeLabel,
    claims: { annotationPrefix: originalFootprint.claimPrefix, value: "" },
  },
  release: { delay: "0s" },
  hold: {
    resource: originalFootprint.owners,
    finalizer: originalFootprint.finalizer,
    onDelete: "DeleteOwned",
    ownedResources: [{ group: "apps", version: "v1", resource: "deployments" }],
  },
  // The controller that creates the Deployments of the pools adds the container, so Berth does not inject it.
  wait: {
    inject: "None",
    container: { ...originalFootprint.waitContainer, resources: {}, securityContext: {} },
    port: originalFootprint.port,
  },
  agent: { daemonSet: originalFootprint.agent, nodeSelector: "Verify" },
} as const satisfies NodeFootprintSpec;

export const presets: Readonly<Record<FootprintPreset, Preset>> = {
  "agent-substrate/pr-134": {
    spec: {
      ...substrate,
      workloads: [havingLabel(originalFootprint.podLabel)],
      group: { by: "PodLabel", label: originalFootprint.podLabel, owner: originalFootprint.owner },
    },
  },
  "agent-substrate/owner-uid": {
    spec: {
      ...substrate,
      workloads: [havingLabel(originalFootprint.poolLabel)],
      group: { by: "OwnerUID", owner: originalFootprint.owner },
    },
  },
  csi: { spec: { group: { by: "Namespace" }, release: { delay: "5m" } }, needs: "csiDrivers" },
  gpu: {
    spec: { workloads: [{ requests: ["nvidia.com/gpu"] }], group: { by: "None" }, release: { delay: "2m" } },
  },
  log: { spec: { group: { by: "Namespace" }, release: { delay: "1m" } }, needs: "podSelector" },
  "image-warmer": {
    spec: {
      group: { by: "OwnerUID", owner: { group: "apps", kind: "Deployment" } },
      release: { delay: "30m" },
    },
    needs: "podSelector",
  },
};

function havingLabel(key: string): FootprintWorkload {
  return { podSelector: { matchExpressions: [{ key, operator: "Exists" }] } };
}
