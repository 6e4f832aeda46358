/** Wires node footprints into a running Berth. */
import { bindAdmission } from "@berth/host";
import { daemonSets } from "@berth/kube";
import { keyOf } from "@berth/runtime";
import { onceCapability } from "../node/once-capability.ts";
import { NodeCounts } from "../node/pass.ts";
import type { NodeCapability, NodeHost, Wired } from "../node/wired.ts";
import { wireAgents } from "./agent/wiring.ts";
import { bindFootprints, footprintFields } from "./capability.ts";
import { footprintRules } from "./compile.ts";
import { type FootprintProgress, isGoodCondition, SETTLING_MS } from "./conditions.ts";
import { FOOTPRINT, type Footprint } from "./footprint.ts";
import { wireHolds } from "./hold/wiring.ts";
import { createFootprintMetrics } from "./metrics.ts";
import { createFootprintObservations } from "./observations.ts";
import { footprintOnce } from "./once.ts";
import { footprintPermissions } from "./permissions.ts";
import { type NodeFootprint, nodeFootprintKind } from "./resource.ts";
import { describeFootprint } from "./status.ts";
import { type FootprintCounts, FootprintTally } from "./tally.ts";
import { waitAdmission, waitReviews } from "./wait/admission.ts";

export const footprint: NodeCapability = {
  name: FOOTPRINT,
  kinds: [nodeFootprintKind],
  admission: [waitReviews],
  changes: { fields: [{ resource: daemonSets, paths: ["spec.template.spec.nodeSelector"] }] },
  fields: footprintFields,
  permissions: footprintPermissions,
  once: () => onceCapability(footprintRules, footprintOnce),
  wire,
};

/**
 * Holds and agents have their own wiring. Each receives the footprints as they change, and calls `onChange` when there
 * is something to report.
 */
function wire(host: NodeHost): Wired {
  const { cluster, nodes, daemonSets, clock, log, metrics, recheckAll } = host;
  const inForce = (): readonly Footprint[] => documents.inForce?.footprints ?? [];
  const onChange = (rule?: string): void =>
    rule === undefined ? documents.askAll() : documents.askRule(rule);

  const onCounts = (rule?: string): void => {
    onChange(rule);
    agents.ask();
  };
  const tally = new FootprintTally({ onChange: onCounts, monotonic: () => clock.monotonic() });
  // Counts are valid only after Berth has checked every node with the footprints in force.
  const pass = new NodeCounts({ nodes, tally, onDone: () => onCounts() });
  const counts = (rule: string): FootprintCounts | undefined => pass.of(rule);
  const watches = createFootprintObservations({
    ...host,
    daemonSets,
    onNode: host.recheck,
    onEverything() {
      recheckAll();
      holds.watches.lookAgain();
    },
    onPod: (change) => holds.watches.podChanged(change),
    onOwners: (pod) => holds.watches.ownersKnown(pod),
    onNamespace: () => holds.watches.lookAgain(),
  });
  const { observations } = watches;
  const holds = wireHolds({ ...host, nodes, watches, onChange });
  const agents = wireAgents({ ...host, nodes, daemonSets, tally, counts, onChange });
  const problemsOf = (footprint: Footprint): readonly string[] =>
    [watches.whyUnread(footprint), holds.problem(footprint), agents.problem(footprint)].filter(
      (problem) => problem !== undefined,
    );
  /** The parts of the status that change without an event. */
  const hindrancesOf = (footprint: Footprint): string =>
    JSON.stringify([
      problemsOf(footprint),
      tally.unknownMs(footprint.rule) >= SETTLING_MS,
      holds.progress(footprint).owners,
    ]);
  let hindrances: ReadonlyMap<string, string> = new Map();
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
      wait: footprint.wait && admission.state(),
    };
  };

  const footprintMetrics = createFootprintMetrics(metrics);
  footprintMetrics.counts(() => tally.total);
  footprintMetrics.hindered(() => inForce().filter((it) => problemsOf(it).length > 0).length);
  const documents = host.documents({
    rules: footprintRules,
    capability: FOOTPRINT,
    onChange(footprints) {
      footprintMetrics.taken(footprints.footprints.length, footprints.faults.length);
      pass.begin();
      const holding = holds.want(footprints);
      watches.want([...new Set([...footprints.footprints, ...holding])]);
      agents.want(footprints);
      admission.changed();
      recheckAll();
      // A cluster without nodes makes no decisions, so the pass may be complete already.
      pass.check();
    },
    onKnown: () => pass.check(),
    // No event reports a change of permissions. Berth asks only for changed footprints: a status visits all their nodes.
    onLook() {
      const before = hindrances;
      hindrances = new Map(inForce().map((it) => [it.rule, hindrancesOf(it)]));
      for (const [rule, now] of hindrances) if (before.get(rule) !== now) documents.askRule(rule);
    },
    action: "KeepFootprint",
    logsFiles: true,
    isGood: isGoodCondition,
    decide: (object: NodeFootprint, result, rule) =>
      describeFootprint({ object, result, progress: progressOf(rule) }),
  });
  const admission = host.review({
    rules: bindAdmission(waitAdmission({ observations, log }), () => documents.inForce),
    onChange: () => documents.askAll(),
  });
  daemonSets.subscribe({
    onChange: () => onCounts(),
    onVersion: ({ object }) => agents.daemonSetChanged(keyOf(cluster, object)),
  });
  // Berth reads pods and related data only while a footprint is in force.
  host.add(watches.components, "caches");
  host.add([...holds.components, ...agents.components], "elected");
  const capability = bindFootprints({ footprints: () => documents.inForce, observations });
  return {
    capability,
    observer: {
      decided(name, outcome) {
        pass.decided(name, outcome);
      },
      gone(name) {
        pass.gone(name);
        capability.gone(name);
      },
    },
  };
}
