/** The parts of a running Berth that have to do with label rules, put together. */

import { createStatusController, DocumentSource, FaultReport } from "@berth/host";
import type { Node } from "@berth/kube";
import { type Informer } from "@berth/runtime";
import { reasons } from "../api/reasons.ts";
import { RemovalBreakers } from "../node/breaker.ts";
import { type BoundCapability, bindCapability, type NodeView } from "../node/capability.ts";
import { FirstPass } from "../node/first-pass.ts";
import { tellAll } from "../node/observer.ts";
import { ownedMarks, recordOf } from "../node/record.ts";
import type { Wired, WiringDeps } from "../node/wired.ts";
import { labels } from "./capability.ts";
import { defaultLabelOptions, type LabelFolderSource, type LabelOptions, labelFolderKind } from "./config.ts";
import { type ParsedFolder } from "./folder.ts";
import { LabelFolderFollower } from "./follow-folder.ts";
import { createLabelMetrics } from "./metrics.ts";
import { type LabelRule, labelRuleKind, labelRules } from "./resource.ts";
import { createLabelRules } from "./rule-documents.ts";
import { decideStatus, ruleConditions } from "./status.ts";
import { RuleTally } from "./tally.ts";

/** What the user asked for. */
export interface LabelSettings {
  readonly labelFolder?: LabelFolderSource;
  readonly ruleOptions?: LabelOptions;
  readonly config?: readonly { readonly path: string; readonly shown: string }[];
}

export interface LabelDeps extends WiringDeps {
  readonly rules: Informer<LabelRule>;
  /** Resolves once the configuration files have been read for the first time. */
  readonly filesRead: Promise<void>;
  /** Other rules are in force: every node has to be looked at. */
  readonly onChange: () => void;
}

export interface WiredLabels extends Wired {
  readonly capability: BoundCapability;
  /** Every source of rules that there is has been read. */
  readonly known: () => boolean;
  readonly breakers: RemovalBreakers;
}

export function wireLabels(settings: LabelSettings, deps: LabelDeps): WiredLabels {
  const { config = [], labelFolder, ruleOptions = defaultLabelOptions } = settings;
  const { client, cluster, nodes, rules, events, installation, onFault, clock, log, metrics } = deps;
  const labelMetrics = createLabelMetrics(metrics);
  const faults = new FaultReport(onFault);
  let parsed: ParsedFolder | undefined;
  const viewOf = (node: Node): NodeView => ({ node, owned: ownedMarks(recordOf(node), installation) });
  const documents = new DocumentSource(
    createLabelRules({
      options: ruleOptions,
      folder: () => parsed,
      nodes: () => (nodes.synced ? Iterator.from(nodes.list()).map(viewOf) : undefined),
    }),
    (assembled) => {
      const documentFaults = documents.configFaults();
      faults.report("documents", documentFaults);
      labelMetrics.taken(assembled.rules, [...(parsed?.problems ?? []), ...documentFaults]);
      statuses.askAll();
      deps.onChange();
    },
  );
  const capability = bindCapability(labels, {
    config: () => documents.inForce?.rules,
    observe: (view) => view,
  });
  const tally = new RuleTally({ onChange: (rule) => statuses.askRule(rule) });
  const firstPass = new FirstPass({ nodes, onDone: () => statuses.askAll() });
  const breakers = new RemovalBreakers((rule, frozen) => {
    statuses.askRule(rule);
    if (frozen)
      log.error("removals are frozen: too many nodes would lose labels of the rule at once", { rule });
    else log.info("removals go on", { rule });
  });
  labelMetrics.counts({ conflicts: () => tally.conflicts, frozen: () => breakers.frozen.length });
  const statuses = createStatusController({
    name: "label-rules",
    resource: labelRules,
    objects: rules,
    judge: (name, version) => documents.resultOf(name, version),
    action: "KeepRule",
    noun: "label rule",
    isGood: ({ type, status, reason }) =>
      type === ruleConditions.ready && status === "True" && reason !== reasons.RulesOverlap,
    events,
    decide: (rule, verdict, name) =>
      decideStatus({
        rule,
        verdict,
        counts: firstPass.done ? tally.counts(name) : undefined,
        frozen: breakers.frozen.find((one) => one.rule === name),
        now: clock.now(),
      }),
    client,
    cluster,
    clock,
    log,
    metrics,
  });
  const folder = new LabelFolderFollower({
    whenTold: deps.filesRead,
    clock,
    log,
    onRules(read) {
      parsed = read;
      documents.refresh();
    },
    onFault,
  });
  if (config.length === 0) folder.follow(labelFolder);
  const follower = deps.follow({
    kind: labelRuleKind,
    documents: rules,
    capability: labels.name,
    source: documents,
    onKnown() {
      // From now on the nodes can be counted: what waited for that is decided.
      if ((documents.inForce?.waiting.size ?? 0) > 0) documents.refresh();
      firstPass.check();
    },
  });
  return {
    capability,
    // Without its CRD no rule of the cluster can be known: a gate that waits for labels goes by those of files.
    known: () => documents.clusterRead || rules.absent,
    observer: tellAll([tally, firstPass]),
    breakers,
    onSettings(read) {
      documents.setConfig(read.documentsOf(labelRuleKind));
      folder.follow(read.specOf(labelFolderKind));
    },
    components: { first: [folder], everywhere: [follower], elected: [statuses.controller] },
  };
}
