/** The parts of a running Berth that have to do with startup gates, put together. */

import { createStatusController, DocumentSource, FaultReport } from "@berth/host";
import type { Node } from "@berth/kube";
import { type Informer } from "@berth/runtime";
import { type BoundCapability } from "../node/capability.ts";
import { type DaemonSetWatch } from "../node/daemonset-watch.ts";
import { FirstPass } from "../node/first-pass.ts";
import { tellAll } from "../node/observer.ts";
import type { Wired, WiringDeps } from "../node/wired.ts";
import { bindGates, marksSettled } from "./capability.ts";
import { GateClocks } from "./clocks.ts";
import { createDirectBindings, type DirectBindings } from "./direct-binding-watch.ts";
import { signalGroups } from "./document.ts";
import { GATES, type GateSight, type Gates } from "./gate.ts";
import { createGateRules } from "./gone-gates.ts";
import { IdleProbe } from "./idle-probe.ts";
import { createGateMetrics } from "./metrics.ts";
import { needsDaemonSets, podQueries } from "./pod-signal.ts";
import { PodWatches } from "./pod-watches.ts";
import { type StartupGate, startupGateKind, startupGates } from "./resource.ts";
import { decideGateStatus, type GateJudgement } from "./status.ts";
import { GateTally } from "./tally.ts";

export interface GateDeps extends WiringDeps {
  readonly gates: Informer<StartupGate>;
  readonly daemonSets: DaemonSetWatch;
  /** The derived labels, and whether their rules have been read. */
  readonly labels: { readonly capability: BoundCapability; readonly known: () => boolean };
  /** Nodes that were there at the start are gated when idle, however old (`STARTUP_BACKFILL`). */
  readonly backfillAtStart: boolean;
  /** What puts the taint on new nodes. */
  readonly admission: () => GateJudgement | undefined;
  /** Whether pods that name a held node are refused. */
  readonly directBinding: () => GateJudgement | undefined;
  /** Other gates are in force: every node has to be looked at. */
  readonly onChange: (gates: Gates) => void;
  /** Look at this node. */
  readonly recheck: (node: string) => void;
  readonly recheckAll: () => void;
}

/** The index of Nodes by the gates that hold them again: `heldAgainBy`. */
export const HELD_AGAIN = "held-again";

export interface WiredGates extends Wired {
  readonly gates: () => Gates | undefined;
  readonly directBindings: DirectBindings;
  /** The state of admission has changed. */
  readonly askStatuses: () => void;
}

/** How long after the start nodes are still looked up for `STARTUP_BACKFILL`. Milliseconds. */
const START_MS = 60_000;

export function wireGates(deps: GateDeps): WiredGates {
  const { client, cluster, nodes, gates, events, clock, log, metrics, recheck, recheckAll } = deps;
  const { daemonSets: sets } = deps;
  const common = { client, cluster, clock, log, metrics };
  const gateMetrics = createGateMetrics(metrics);
  const faults = new FaultReport(deps.onFault);
  const pods = new PodWatches({
    ...common,
    annotationKeys: () =>
      (documents.inForce?.gates ?? []).flatMap(({ spec }) =>
        signalGroups(spec).flatMap((group) => group.pods.map((it) => it.readyAnnotation)),
      ),
    onChange: recheck,
    onSynced: recheckAll,
  });
  const wantPods = (): void =>
    pods.want((documents.inForce?.gates ?? []).flatMap((gate) => podQueries(gate, sets)));
  const directBindings = createDirectBindings({ ...common, nodes, gates: () => documents.inForce });
  const idle = new IdleProbe({ ...common, onKnown: recheck });
  const { rules, forget } = createGateRules(clock);
  const documents = new DocumentSource(rules, (inForce) => {
    faults.report("gates", documents.configFaults());
    gateMetrics.taken(inForce.gates.length, inForce.faults);
    sets.want(GATES, inForce.gates.some(needsDaemonSets));
    wantPods();
    directBindings.gatesChanged();
    statuses.askAll();
    deps.onChange(inForce);
    recheckAll();
  });
  const tally: GateTally = new GateTally({
    now: () => clock.now(),
    onChange: (rule) => statuses.askRule(rule),
    onRelease: (release) => gateMetrics.released(release),
  });
  gateMetrics.counts({ held: () => tally.held, timedOut: () => tally.timedOut });
  const firstPass = new FirstPass({ nodes, onDone: () => statuses.askAll() });
  const clocks = new GateClocks({ monotonic: () => clock.monotonic() });
  // By uid, as creation times have whole seconds: a node made within the second of the start would count as older.
  const thereAtStart = new Set<string>();
  let isFirstList = deps.backfillAtStart;
  if (deps.backfillAtStart)
    nodes.subscribe({
      onChange(change) {
        if (!isFirstList) return;
        if (change.type === "added" && change.initial) thereAtStart.add(change.object.metadata?.uid ?? "");
        // The whole first list is told before the first change after it.
        else if (nodes.synced) isFirstList = false;
      },
    });
  const startedMs = clock.monotonic();
  const { labels } = deps;
  const sight: GateSight = {
    pods: (query, node) => pods.pods(query, node),
    daemonSet: (namespace, name) => sets.daemonSet(namespace, name),
    labelsSettled: (node) =>
      labels.known()
        ? marksSettled(labels.capability, node, { installation: deps.installation, now: clock.now() })
        : undefined,
  };
  const capability = bindGates({
    gates: () => documents.inForce,
    sources: {
      sight,
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
      ...(deps.backfillAtStart && {
        backfillAlways: ({ metadata }: Node) =>
          clock.monotonic() - startedMs < START_MS && thereAtStart.has(metadata?.uid ?? ""),
      }),
    },
  });
  const statuses = createStatusController({
    ...common,
    name: "startup-gates",
    resource: startupGates,
    objects: gates,
    judge: (name, version) => documents.resultOf(name, version),
    action: "KeepGate",
    noun: "startup gate",
    isGood: ({ status }) => status === "True",
    events,
    decide: (gate, judgement, rule) =>
      decideGateStatus({
        gate,
        judgement,
        counts: firstPass.done ? tally.counts(rule) : undefined,
        admission: deps.admission(),
        directBinding: deps.directBinding(),
        now: clock.now(),
      }),
  });
  sets.subscribe({
    onChange() {
      if (!(documents.inForce?.gates.some(needsDaemonSets) ?? false)) return;
      wantPods();
      recheckAll();
    },
  });
  const follower = deps.follow({
    kind: startupGateKind,
    documents: gates,
    capability: GATES,
    source: documents,
    onKnown: () => firstPass.check(),
    onLook: () => forget() && documents.renew(),
  });
  return {
    capability,
    gates: () => documents.inForce,
    directBindings,
    observer: tellAll([
      tally,
      firstPass,
      {
        decided() {},
        gone(name) {
          clocks.forget(name);
          idle.forget(name);
        },
      },
    ]),
    onSettings: (read) => documents.setConfig(read.documentsOf(startupGateKind)),
    components: {
      // What signals are read from, beside DaemonSets: it runs while a gate needs it.
      caches: [pods, idle, directBindings.watch],
      everywhere: [follower],
      elected: [statuses.controller],
    },
    askStatuses: statuses.askAll,
  };
}
