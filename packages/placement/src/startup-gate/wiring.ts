/** Wires the startup gates into a running Berth. */
import { type AdmissionHandle, bindAdmission, createViews, type HeldDocuments, type View } from "@berth/host";
import type { Pod } from "@berth/kube";
import { keyOf } from "@berth/runtime";
import { followNodeDocuments } from "../node/documents.ts";
import { tellAll } from "../node/observer.ts";
import { onceCapability } from "../node/once-capability.ts";
import { NodeCounts } from "../node/pass.ts";
import type { NodeCapability, NodeHost, Wired } from "../node/wired.ts";
import { gateAdmission } from "./admission.ts";
import { followFirstNodes } from "./backfill.ts";
import { bindGates, gateFields, labelsSettledIn } from "./capability.ts";
import { GateClocks } from "./clocks.ts";
import { enforcedGates, gateRules } from "./compile.ts";
import { directBinding, directBindingAdmission } from "./direct-binding.ts";
import type { StartupGateSpec } from "./document.ts";
import { GATES, type Gates } from "./gate.ts";
import { createGateRules } from "./gone-gates.ts";
import { IdleProbe } from "./idle-probe.ts";
import { countReleases, gateGauges, measureHolds } from "./metrics.ts";
import { gatesOnce } from "./once.ts";
import { gatePermissions } from "./permissions.ts";
import { gateConcerns, gateObservations, gateReads } from "./reads.ts";
import { type StartupGate, startupGateKind } from "./resource.ts";
import { heldAgainBy } from "./state.ts";
import { describeGate } from "./status.ts";
import { GateTally } from "./tally.ts";

export interface GateFlags {
  /** Gates also hold idle nodes that existed at the start, at any age (`STARTUP_BACKFILL`). Default false. */
  readonly backfillAtStart?: boolean;
}

/** The index of Nodes by the gates that hold them again: `heldAgainBy`. */
const HELD_AGAIN = "held-again";

export const startupGate: NodeCapability<GateFlags> = {
  name: GATES,
  noun: "gate",
  kinds: [startupGateKind],
  admission: [gateAdmission, directBinding],
  fields: gateFields,
  indexes: { [HELD_AGAIN]: heldAgainBy },
  permissions: gatePermissions,
  once: () => onceCapability(gateRules, gatesOnce),
  wire,
};

function wire(host: NodeHost & GateFlags): Wired {
  const { nodes, clock, metrics, recheck, recheckAll } = host;
  const views = createViews(gateReads, {
    ...host,
    concerns: gateConcerns,
    onKeys(names) {
      for (const name of names) recheck(name);
    },
    onAll: (of) => of !== "unscheduled" && recheckAll(),
  });
  const idle = new IdleProbe({ ...host, onKnown: recheck });
  const clocks = new GateClocks({ monotonic: () => clock.monotonic() });
  const tally: GateTally = new GateTally({
    now: () => clock.now(),
    onChange: (rule) => documents.askRule(rule),
    onRelease: countReleases(metrics),
  });
  measureHolds(host, tally);
  const counts = new NodeCounts({ nodes, tally, onDone: () => documents.askAll() });
  const standing = (gate: string): readonly string[] =>
    nodes.byIndex(HELD_AGAIN, gate).map(({ metadata }) => metadata?.name ?? "");
  const capability = bindGates({
    gates: () => documents.inForce,
    sources: {
      observations: gateObservations(views, labelsSettledIn(host)),
      clocks,
      idle: (node, ignored) => idle.idleOf(node, ignored),
      mayHoldAgain: (gate, node) =>
        counts.done ? tally.mayHoldAgain(gate, node, standing(gate.name)) : undefined,
      ...(host.backfillAtStart && { backfillAlways: followFirstNodes(host) }),
    },
  });
  const { rules, forget } = createGateRules(clock);
  const documents: HeldDocuments<StartupGateSpec, Gates, StartupGate> = followNodeDocuments(host, {
    rules,
    capability: GATES,
    gauges: gateGauges,
    count: ({ gates }) => gates.length,
    faults: ({ faults }) => faults,
    counts,
    onChange(inForce) {
      views.want(inForce);
      for (const review of [ofNodes, ofBindings]) review.changed();
    },
    onLook: () => forget() && documents.source.renew(),
    action: "KeepGate",
    decide: (gate: StartupGate, result, rule) =>
      describeGate({
        gate,
        result,
        counts: counts.of(rule),
        admission: ofNodes.state(),
        directBinding: ofBindings.state(),
      }),
  });
  const [ofNodes, ofBindings] = reviewGates(host, documents, views.unscheduled);
  host.add([...views.components, idle], "caches");
  const forgetting = { gone: (name: string) => [clocks, idle].forEach((it) => it.forget(name)) };
  return { capability, observer: tellAll([counts, forgetting]) };
}

function reviewGates(
  host: NodeHost,
  documents: HeldDocuments<StartupGateSpec, Gates, StartupGate>,
  unscheduled: View<Pod>,
): readonly [AdmissionHandle, AdmissionHandle] {
  const { nodes, cluster } = host;
  const onChange = (): void => documents.askAll();
  // A gate in dry run puts its taint on no node.
  const enforced = bindAdmission(gateAdmission, () => enforcedGates(documents.inForce));
  const binding = directBindingAdmission({
    node: (name) => nodes.get(keyOf(cluster, { metadata: { name } })),
    pod: (namespace, name) => unscheduled.find(name, namespace) ?? undefined,
  });
  return [
    host.review({ rules: enforced, onChange, arrivals: nodes }),
    host.review({ rules: bindAdmission(binding, () => documents.inForce), onChange }),
  ];
}
