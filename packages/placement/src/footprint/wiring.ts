/** The parts of a running Berth that have to do with node footprints, put together. */
import { DocumentSource, FaultReport } from "@berth/host";
import { type Informer, keyOf } from "@berth/runtime";
import { reasons } from "../api/reasons.ts";
import { type DaemonSetWatch } from "../node/daemonset-watch.ts";
import { FirstPass } from "../node/first-pass.ts";
import type { Wired, WiringDeps } from "../node/wired.ts";
import { wireAgents } from "./agent/wiring.ts";
import { bindFootprints } from "./capability.ts";
import { footprintRules } from "./compile.ts";
import { type FootprintJudgement, type FootprintProgress, SETTLING_MS } from "./conditions.ts";
import { FOOTPRINT, type Footprint, type Footprints } from "./footprint.ts";
import { wireHolds } from "./hold/wiring.ts";
import { createFootprintMetrics } from "./metrics.ts";
import { createFootprintReports } from "./reports.ts";
import { type NodeFootprint, nodeFootprintKind } from "./resource.ts";
import { createFootprintSight } from "./sight.ts";
import { type FootprintCounts, FootprintTally } from "./tally.ts";
import { type WaitAnswers } from "./wait/admission.ts";

export interface FootprintDeps extends WiringDeps {
  readonly footprints: Informer<NodeFootprint>;
  readonly daemonSets: DaemonSetWatch;
  /** Whether the API server asks about new pods that are to wait for an agent. */
  readonly admission: () => FootprintJudgement | undefined;
  /** Other footprints are in force. */
  readonly onChange: () => void;
  /** Look at this node. */
  readonly recheck: (node: string) => void;
  readonly recheckAll: () => void;
}

export interface WiredFootprints extends Wired {
  readonly footprints: () => Footprints | undefined;
  /** What the API server is answered by about new pods. */
  readonly answers: WaitAnswers;
  /** The state of admission has changed. */
  readonly askStatuses: () => void;
}

/**
 * What is decided of owners and of DaemonSets are parts of their own. Each gets the footprints as they change, and says when
 * there is something to report.
 */
export function wireFootprints(deps: FootprintDeps): WiredFootprints {
  const { client, cluster, nodes, daemonSets, events, clock, log, metrics, admission, recheckAll } = deps;
  const common = { client, cluster, clock, log, metrics };
  const inForce = (): readonly Footprint[] => documents.inForce?.footprints ?? [];
  const onChange = (rule?: string): void => (rule === undefined ? reports.askAll() : reports.askRule(rule));
  let files: readonly { readonly name: string }[] = [];

  const onCounts = (rule?: string): void => {
    onChange(rule);
    agents.ask();
  };
  const tally = new FootprintTally({ onChange: onCounts, monotonic: () => clock.monotonic() });
  // Each node has to be looked at by the footprints in force before anything is said of all.
  const beginPass = (): FirstPass => new FirstPass({ nodes, onDone: () => onCounts() });
  let pass = beginPass();
  const counts = (rule: string): FootprintCounts | undefined => (pass.done ? tally.counts(rule) : undefined);
  const watches = createFootprintSight({
    ...common,
    daemonSets,
    onNode: deps.recheck,
    onEverything() {
      recheckAll();
      holds.watches.lookAgain();
    },
    onPod: (change) => holds.watches.podChanged(change),
    onOwners: (pod) => holds.watches.ownersKnown(pod),
    onNamespace: () => holds.watches.lookAgain(),
  });
  const { sight } = watches;
  const holds = wireHolds({ ...common, nodes, watches, events, onChange });
  const agents = wireAgents({ ...common, nodes, daemonSets, tally, counts, events, onChange });
  const problemsOf = (footprint: Footprint): readonly string[] =>
    [watches.whyUnread(footprint), holds.problem(footprint), agents.problem(footprint)].filter(
      (problem) => problem !== undefined,
    );
  const progressOf = (rule: string): FootprintProgress | undefined => {
    const footprint = inForce().find((it) => it.rule === rule);
    if (footprint === undefined) return undefined;
    return {
      footprint,
      counts: counts(rule),
      unknownMs: tally.unknownMs(rule),
      unread: watches.whyUnread(footprint),
      ...agents.progress(footprint),
      ...holds.progress(footprint),
      wait: footprint.wait && admission(),
    };
  };

  const footprintMetrics = createFootprintMetrics(metrics);
  footprintMetrics.counts(() => tally.total);
  footprintMetrics.hindered(() => inForce().filter((it) => problemsOf(it).length > 0).length);
  const faults = new FaultReport(deps.onFault);
  const documents = new DocumentSource(footprintRules, (footprints) => {
    faults.report("footprints", documents.configFaults());
    footprintMetrics.taken(footprints.footprints.length, footprints.faults.length);
    pass = beginPass();
    const holding = holds.want(footprints);
    watches.want([...new Set([...footprints.footprints, ...holding])]);
    agents.want(footprints);
    reports.askAll();
    deps.onChange();
    recheckAll();
    // Without nodes nothing is decided, and all of them have been looked at.
    pass.check();
  });
  const reports = createFootprintReports({
    ...common,
    events,
    objects: deps.footprints,
    judge: (name, version) => documents.resultOf(name, version),
    judgeFile: (name) => judgeFile(name, documents.inForce),
    progressOf,
    files: () => files.map(({ name }) => name),
    inForce,
    hindrances: (footprint) =>
      JSON.stringify([
        problemsOf(footprint),
        tally.unknownMs(footprint.rule) >= SETTLING_MS,
        holds.progress(footprint).owners,
      ]),
  });

  daemonSets.subscribe({
    onChange: () => onCounts(),
    onVersion: ({ object }) => agents.daemonSetChanged(keyOf(cluster, object)),
  });
  const follower = deps.follow({
    kind: nodeFootprintKind,
    documents: deps.footprints,
    capability: FOOTPRINT,
    source: documents,
    onKnown: () => pass.check(),
    onLook: () => reports.look(),
  });
  const capability = bindFootprints({ footprints: () => documents.inForce, sight });
  return {
    capability,
    footprints: () => documents.inForce,
    observer: {
      decided(name, outcome) {
        tally.decided(name, outcome);
        pass.decided(name);
      },
      gone(name) {
        tally.gone(name);
        pass.gone(name);
        capability.gone(name);
      },
    },
    answers: { sight, log },
    askStatuses: () => reports.askAll(),
    onSettings(read) {
      files = read.documentsOf(nodeFootprintKind);
      documents.setConfig(read.documentsOf(nodeFootprintKind));
    },
    components: {
      // Pods, and what they are decided by, are read while a footprint is in force.
      caches: watches.components,
      everywhere: [follower],
      elected: [...holds.components, ...agents.components, ...reports.controllers],
    },
  };
}

function judgeFile(name: string, inForce: Footprints | undefined): FootprintJudgement {
  const fault = inForce?.faults.find((it) => it.source === "config" && it.name === name);
  if (fault === undefined) return { ready: true, reason: reasons.FootprintInForce, message: "in force" };
  const message = `${["spec", ...fault.path].join(".")}: ${fault.message}`;
  return { ready: false, reason: fault.reason, message };
}
