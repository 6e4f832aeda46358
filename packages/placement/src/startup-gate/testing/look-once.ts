/** Gates of the cluster as a command looks at them: nodes decided once, planned and patched. */

import type { Node } from "@berth/kube";
import type { NodeView } from "../../node/capability.ts";
import { mergeContributions } from "../../node/merge.ts";
import { type NodePlan, planNode } from "../../node/plan.ts";
import { ownedMarks, recordOf } from "../../node/record.ts";
import { NEW_YEAR } from "../../node/testing/labels.ts";
import { patchNode } from "../../node/testing/world.ts";
import { bindGates, type GateCapability } from "../capability.ts";
import { GateClocks } from "../clocks.ts";
import { compileGates } from "../compile.ts";
import { startupGateSpec } from "../document.ts";
import type { Gates } from "../gate.ts";

export const TAINT = { key: "startup.k8s.io/initializing", value: "wait", effect: "NoSchedule" } as const;

/** Gates of the cluster by name, of specs as users write them. */
export function gatesOf(specs: Readonly<Record<string, object>>): Gates {
  const documents = Object.entries(specs).map(([name, spec]) => ({
    name,
    spec: startupGateSpec.parse(spec),
  }));
  return compileGates({ sources: [{ source: "cluster", documents }] });
}

/** Sees no pod and no DaemonSet. Every node is idle where it trusts, as a command does; else that is not known. */
export function bind(gates: Gates, now: () => number = () => NEW_YEAR, trusting = false): GateCapability {
  return bindGates({
    gates: () => gates,
    sources: {
      observations: { pods: () => [], daemonSet: () => null, labelsSettled: () => undefined },
      clocks: new GateClocks({ monotonic: now, trusting }),
      idle: () => (trusting ? { idle: true } : "unknown"),
      mayHoldAgain: () => true,
    },
  });
}

export const viewOf = (node: Node): NodeView => ({ node, owned: ownedMarks(recordOf(node), "berth") });

export function planFor(node: Node, capability: GateCapability, now: number = NEW_YEAR): NodePlan {
  const merged = mergeContributions([capability.contribute(viewOf(node), now)]);
  return planNode({ node, merged, installation: "berth", now });
}

/** The node as a running Berth leaves it; the same one when nothing is to be done. */
export function settle(node: Node, capability: GateCapability, now: number = NEW_YEAR): Node {
  const { patch } = planFor(node, capability, now);
  return patch === undefined ? node : patchNode(node, patch);
}
