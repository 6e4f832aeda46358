/** Wires node footprints into a running Berth. */
import { bindAdmission } from "@berth/host";
import { daemonSets } from "@berth/kube";
import { followNodeDocuments } from "../node/documents.ts";
import { tellAll } from "../node/observer.ts";
import { onceCapability } from "../node/once-capability.ts";
import { NodeCounts } from "../node/pass.ts";
import type { NodeCapability, NodeHost, Wired } from "../node/wired.ts";
import { wireAgents } from "./agent/wiring.ts";
import { bindFootprints, footprintFields } from "./capability.ts";
import { footprintRules } from "./compile.ts";
import { isGoodCondition } from "./conditions.ts";
import { FOOTPRINT, type Footprint } from "./footprint.ts";
import { wireHolds } from "./hold/wiring.ts";
import { footprintGauges, measureFootprints } from "./metrics.ts";
import { watchFootprints } from "./observations.ts";
import { footprintOnce } from "./once.ts";
import { footprintPermissions } from "./permissions.ts";
import { FootprintProgresses } from "./progress.ts";
import { type NodeFootprint, nodeFootprintKind } from "./resource.ts";
import { describeFootprint } from "./status.ts";
import { FootprintTally } from "./tally.ts";
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
  const { nodes, clock, log, metrics } = host;
  const inForce = (): readonly Footprint[] => documents.inForce?.footprints ?? [];
  const onChange = (rule?: string): void =>
    rule === undefined ? documents.askAll() : documents.askRule(rule);
  const onCounts = (rule?: string): void => {
    onChange(rule);
    agents.ask();
  };
  const tally = new FootprintTally({ onChange: onCounts, monotonic: () => clock.monotonic() });
  const counts = new NodeCounts({ nodes, tally, onDone: onCounts });
  const watches = watchFootprints(host, {
    onNode: host.recheck,
    onEverything: host.recheckAll,
    onAgents: onCounts,
    onDaemonSet: (key) => agents.daemonSetChanged(key),
    holds: () => holds.watches,
  });
  const { observations, views } = watches;
  const holds = wireHolds({ ...host, watches, onChange });
  const agents = wireAgents({ ...host, daemonSets: views.daemonSets, tally, counts, onChange });
  const documents = followNodeDocuments(host, {
    rules: footprintRules,
    capability: FOOTPRINT,
    gauges: footprintGauges,
    count: ({ footprints }) => footprints.length,
    faults: ({ faults }) => faults,
    counts,
    onChange(footprints) {
      counts.begin();
      const holding = holds.want(footprints);
      watches.want([...new Set([...footprints.footprints, ...holding])]);
      agents.want(footprints);
      admission.changed();
    },
    // No event reports a change of permissions. Berth asks only for changed footprints: a status visits all their nodes.
    onLook: () => documents.askChanged(new Map(inForce().map((it) => [it.rule, progress.hindrances(it)]))),
    action: "KeepFootprint",
    logsFiles: true,
    isGood: isGoodCondition,
    decide(object: NodeFootprint, result, rule) {
      const footprint = inForce().find((it) => it.rule === rule);
      return describeFootprint({ object, result, progress: footprint && progress.of(footprint) });
    },
  });
  const admission = host.review({
    rules: bindAdmission(waitAdmission({ observations, log }), () => documents.inForce),
    onChange: () => documents.askAll(),
  });
  const progress = new FootprintProgresses({ tally, counts, watches, holds, agents, admission });
  const isHindered = (footprint: Footprint): boolean => progress.problems(footprint).length > 0;
  measureFootprints(metrics, tally, () => inForce().filter(isHindered).length);
  // Berth reads pods and related data only while a footprint is in force.
  host.add(watches.components, "caches");
  host.add([...holds.components, ...agents.components], "elected");
  const capability = bindFootprints({ footprints: () => documents.inForce, observations });
  return { capability, observer: tellAll([counts, { gone: (name) => capability.gone(name) }]) };
}
