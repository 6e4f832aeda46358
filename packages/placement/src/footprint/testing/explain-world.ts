/** One node and its pods, as `explain` is asked about them. */
import type { DaemonSet, Node, Pod } from "@berth/kube";
import { ownedMarks, recordOf } from "../../node/record.ts";
import { bindFootprints } from "../capability.ts";
import type { NodeFootprintSpec } from "../document.ts";
import { explainFootprints, type FootprintExplanation } from "../explain.ts";
import type { Footprints } from "../footprint.ts";
import { footprintsOf } from "./footprints.ts";
import { makePod, sightOf } from "./pods.ts";

export const LABEL = "ate.dev/atelet";
export const CLAIM = "ate.dev/claim.";

export interface NodeInit {
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  /** Marks that are recorded as ours. */
  readonly ours?: readonly string[];
}

export function aNode({ labels = {}, annotations = {}, ours = [] }: NodeInit = {}): Node {
  const entry = { c: "footprint", r: "cluster/atelet", since: "2026-01-01T00:00:00Z" };
  const record = { v: 1, by: "berth", marks: Object.fromEntries(ours.map((id) => [id, entry])) };
  const recorded = ours.length === 0 ? {} : { "berth.dev/marks": JSON.stringify(record) };
  const creationTimestamp = "2026-01-01T00:00:00Z";
  return {
    metadata: {
      name: "n1",
      uid: "n1",
      creationTimestamp,
      labels,
      annotations: { ...annotations, ...recorded },
    },
  };
}

/** Of the pool that its label names, with these as its owners. */
export const aPod = (
  name: string,
  pool: string,
  owners: readonly string[] = [pool],
  phase: string = "Running",
): Pod =>
  makePod(name, {
    namespace: "ns",
    labels: { "ate.dev/worker-pool-uid": pool },
    owners: owners.map((of) => `ate.dev/WorkerPool ${of}`),
    phase,
  });

export interface ExplainWorld {
  readonly node?: Node;
  /** `undefined`: not read. */
  readonly pods?: readonly Pod[] | undefined;
  readonly spec?: NodeFootprintSpec;
  readonly daemonSet?: DaemonSet | null | undefined;
  /** Names of pods whose owners are not read. */
  readonly open?: readonly string[];
}

export interface ExplainStage {
  readonly node: Node;
  readonly footprints: Footprints;
  readonly around: Parameters<typeof explainFootprints>[2];
}

export function stageOf(world: ExplainWorld): ExplainStage {
  const { node = aNode(), pods, spec = { preset: "agent-substrate/pr-134" }, daemonSet, open = [] } = world;
  const footprints = footprintsOf({ atelet: spec });
  const observations = { ...sightOf({ pods, ownersUnknown: new Set(open) }), daemonSet: () => daemonSet };
  const view = { node, owned: ownedMarks(recordOf(node), "berth") };
  const { decision } = bindFootprints({ footprints: () => footprints, observations }).contribute(view, 0);
  return {
    node,
    footprints,
    around: { observations, installation: "berth", outcomes: decision.outcomes ?? [] },
  };
}

export function explain(world: ExplainWorld): FootprintExplanation {
  const { node, footprints, around } = stageOf(world);
  const [one] = explainFootprints(node, footprints, around);
  if (one === undefined) throw new Error("there is no footprint");
  return one;
}
