/** Wires the startup gates into a running Berth. */
import { bindAdmission, type HeldDocuments } from "@berth/host";
import type { Node } from "@berth/kube";
import { keyOf } from "@berth/runtime";
import { FirstPass } from "../node/first-pass.ts";
import { tellAll } from "../node/observer.ts";
import { onceCapability } from "../node/once-capability.ts";
import type { NodeCapability, NodeHost, Wired } from "../node/wired.ts";
import { gateAdmission } from "./admission.ts";
import { bindGates, gateFields, marksSettled } from "./capability.ts";
import { GateClocks } from "./clocks.ts";
import { enforcedGates, gateRules } from "./compile.ts";
import { directBinding, directBindingAdmission } from "./direct-binding.ts";
import { createDirectBindings } from "./direct-binding-watch.ts";
import type { StartupGateSpec } from "./document.ts";
import { GATES, type GateObservations, type Gates } from "./gate.ts";
import { createGateRules } from "./gone-gates.ts";
import { IdleProbe } from "./idle-probe.ts";
import { createGateMetrics } from "./metrics.ts";
import { gatesOnce } from "./once.ts";
import { gatePermissions } from "./permissions.ts";
import { needsDaemonSets, podQueries, readAnnotations } from "./pod-signal.ts";
import { PodWatches } from "./pod-watches.ts";
import { type StartupGate, startupGateKind } from "./resource.ts";
import { heldAgainBy, holdsOf } from "./state.ts";
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

/** For how long after the start Berth still looks up nodes for `STARTUP_BACKFILL`. Milliseconds. */
const START_MS = 60_000;

function wire(host: NodeHost & GateFlags): Wired {
  const { nodes, daemonSets: sets, installation, cluster, clock, metrics, recheck, recheckAll } = host;
  const gateMetrics = createGateMetrics(metrics);
  const pods = new PodWatches({
    ...host,
    annotationKeys: () => readAnnotations(documents.inForce?.gates ?? []),
    onChange: recheck,
    onSynced: recheckAll,
  });
  const wantPods = (): void =>
    pods.want((documents.inForce?.gates ?? []).flatMap((gate) => podQueries(gate, sets)));
  const directBindings = createDirectBindings({ ...host, nodes, gates: () => documents.inForce });
  const idle = new IdleProbe({ ...host, onKnown: recheck });
  const { rules, forget } = createGateRules(clock);
  const tally: GateTally = new GateTally({
    now: () => clock.now(),
    onChange: (rule) => documents.askRule(rule),
    onRelease: (release) => gateMetrics.released(release),
  });
  gateMetrics.counts({
    held: () => tally.held.size,
    timedOut: () => tally.timedOut,
    longestMs() {
      const holds = [...tally.held].flatMap((name) => {
        const node = nodes.get(keyOf(cluster, { metadata: { name } }));
        return node === undefined ? [] : holdsOf(node);
      });
      return holds.reduce((longest, { at }) => Math.max(longest, clock.now() - at), 0);
    },
  });
  const firstPass = new FirstPass({ nodes, onDone: () => documents.askAll() });
  const clocks = new GateClocks({ monotonic: () => clock.monotonic() });
  // By uid: creation times have whole seconds, so a node made in the second of the start would count as older.
  const thereAtStart = new Set<string>();
  let isFirstList = host.backfillAtStart === true;
  if (host.backfillAtStart)
    nodes.subscribe({
      onChange(change) {
        if (!isFirstList) return;
        if (change.type === "added" && change.initial) thereAtStart.add(change.object.metadata?.uid ?? "");
        // The informer delivers the whole first list before the first change after it.
        else if (nodes.synced) isFirstList = false;
      },
    });
  const startedMs = clock.monotonic();
  const observations: GateObservations = {
    pods: (query, node) => pods.pods(query, node),
    daemonSet: (namespace, name) => sets.daemonSet(namespace, name),
    labelsSettled(node) {
      const at = { installation, now: clock.now() };
      const facts = host.facts();
      return facts.every(({ known }) => known())
        ? facts.every(({ capability: of }) => marksSettled(of, node, at))
        : undefined;
    },
  };
  const capability = bindGates({
    gates: () => documents.inForce,
    sources: {
      observations,
      clocks,
      idle: (node, ignored) => idle.idleOf(node, ignored),
      mayHoldAgain: (gate, node) =>
        firstPass.done
          ? tally.mayHoldAgain(
              gate,
              node,
              nodes.byIndex(HELD_AGAIN, gate.name).map(({ metadata }) => metadata?.name ?? ""),
            )
          : undefined,
      ...(host.backfillAtStart && {
        backfillAlways: ({ metadata }: Node) =>
          clock.monotonic() - startedMs < START_MS && thereAtStart.has(metadata?.uid ?? ""),
      }),
    },
  });
  const documents: HeldDocuments<StartupGateSpec, Gates, StartupGate> = host.documents({
    rules,
    capability: GATES,
    onChange(inForce) {
      gateMetrics.taken(inForce.gates.length, inForce.faults);
      sets.want(GATES, inForce.gates.some(needsDaemonSets));
      wantPods();
      directBindings.gatesChanged();
      for (const review of reviews) review.changed();
      recheckAll();
    },
    onKnown: () => firstPass.check(),
    onLook: () => forget() && documents.source.renew(),
    action: "KeepGate",
    decide: (gate: StartupGate, result, rule) =>
      describeGate({
        gate,
        result,
        counts: firstPass.done ? tally.counts(rule) : undefined,
        admission: ofNodes.state(),
        directBinding: ofBindings.state(),
      }),
  });
  const onChange = (): void => documents.askAll();
  const reviews = [
    // A gate in dry run puts its taint on no node.
    host.review({
      rules: bindAdmission(gateAdmission, () => enforcedGates(documents.inForce)),
      onChange,
      arrivals: nodes,
    }),
    host.review({
      rules: bindAdmission(directBindingAdmission(directBindings.observations), () => documents.inForce),
      onChange,
    }),
  ] as const;
  const [ofNodes, ofBindings] = reviews;
  sets.subscribe({
    onChange() {
      if (!(documents.inForce?.gates.some(needsDaemonSets) ?? false)) return;
      wantPods();
      recheckAll();
    },
  });
  // Sources of the signals, besides DaemonSets. They run while a gate needs them.
  host.add([pods, idle, directBindings.watch], "caches");
  const forgetting = {
    decided() {},
    gone(name: string) {
      clocks.forget(name);
      idle.forget(name);
    },
  };
  return { capability, observer: tellAll([tally, firstPass, forgetting]) };
}
