/** The parts of a running Berth that have to do with startup gates, put together. */

import { createStatusController, DocumentSource, type Fault, FaultReport, type Follow } from "@berth/host";
import type { KubeClient, Node } from "@berth/kube";
import {
  type BoundCapability,
  bindGates,
  createGateMetrics,
  createGateRules,
  createGateStatusReconciler,
  type DaemonSetWatch,
  FirstPass,
  GATES,
  GateClocks,
  type GateJudgement,
  type GateSight,
  type Gates,
  GateTally,
  IdleProbe,
  marksSettled,
  needsDaemonSets,
  PodWatches,
  podQueries,
  type StartupGate,
  signalGroups,
  startupGateKind,
  startupGates,
} from "@berth/placement";
import {
  type Clock,
  type ClusterName,
  type EventRecorder,
  type Informer,
  type Logger,
  type MetricsRegistry,
} from "@berth/runtime";
import { createDirectBindings, type DirectBindings } from "./direct-bindings.ts";
import type { Wired } from "./wired.ts";

export interface GateSurroundings {
  readonly client: KubeClient;
  readonly cluster: ClusterName;
  readonly nodes: Informer<Node>;
  readonly gates: Informer<StartupGate>;
  readonly daemonSets: DaemonSetWatch;
  readonly follow: Follow;
  readonly events: EventRecorder;
  readonly installation: string;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
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
  readonly onFault: (fault: Fault) => void;
  /** Look at this node. */
  readonly recheck: (node: string) => void;
  readonly recheckAll: () => void;
}

/** The index of Nodes by the gates that hold them again: `heldAgainBy`. */
export const HELD_AGAIN = "held-again";

export interface GateParts extends Wired {
  readonly gates: () => Gates | undefined;
  readonly directBindings: DirectBindings;
  /** The state of admission has changed. */
  readonly askStatuses: () => void;
}

/** How long after the start nodes are still looked up for `STARTUP_BACKFILL`. Milliseconds. */
const START_MS = 60_000;

export function createGateParts(around: GateSurroundings): GateParts {
  const { client, cluster, nodes, gates, events, clock, log, metrics, recheck, recheckAll } = around;
  const { daemonSets: sets } = around;
  const common = { client, cluster, clock, log, metrics };
  const gateMetrics = createGateMetrics(metrics);
  const faults = new FaultReport(around.onFault);
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
    around.onChange(inForce);
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
  let isFirstList = around.backfillAtStart;
  if (around.backfillAtStart)
    nodes.subscribe({
      onChange(change) {
        if (!isFirstList) return;
        if (change.type === "added" && change.initial) thereAtStart.add(change.object.metadata?.uid ?? "");
        // The whole first list is told before the first change after it.
        else if (nodes.synced) isFirstList = false;
      },
    });
  const startedMs = clock.monotonic();
  const { labels } = around;
  const sight: GateSight = {
    pods: (query, node) => pods.pods(query, node),
    daemonSet: (namespace, name) => sets.daemonSet(namespace, name),
    labelsSettled: (node) =>
      labels.known()
        ? marksSettled(labels.capability, node, { installation: around.installation, now: clock.now() })
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
      ...(around.backfillAtStart && {
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
    reconcile: (parts) =>
      createGateStatusReconciler({
        ...parts,
        gates,
        countsOf: (rule) => (firstPass.done ? tally.counts(rule) : undefined),
        admission: around.admission,
        directBinding: around.directBinding,
        events,
        clock,
      }),
  });
  sets.subscribe({
    onChange() {
      if (!(documents.inForce?.gates.some(needsDaemonSets) ?? false)) return;
      wantPods();
      recheckAll();
    },
  });
  const follower = around.follow({
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
    observer: {
      decided(name, outcome) {
        tally.decided(name, outcome);
        firstPass.decided(name);
      },
      written: (name, changes) => tally.written(name, changes),
      gone(name) {
        tally.gone(name);
        firstPass.gone(name);
        clocks.forget(name);
        idle.forget(name);
      },
    },
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
