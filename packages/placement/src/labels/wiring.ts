/** Connects the components for label rules in a running Berth. */
import type { HeldDocuments } from "@berth/host";
import type { Node } from "@berth/kube";
import { reasons } from "../api/reasons.ts";
import { bindCapability, type NodeView } from "../node/capability.ts";
import { followNodeDocuments } from "../node/documents.ts";
import { NodeCounts } from "../node/pass.ts";
import { ownedMarks, recordOf } from "../node/record.ts";
import type { NodeCapability, NodeHost, Wired } from "../node/wired.ts";
import type { AssembledRules } from "./active-rules.ts";
import { labels } from "./capability.ts";
import { defaultLabelOptions, type LabelFolderSource, type LabelOptions, labelFolderKind } from "./config.ts";
import type { LabelRuleSpec } from "./document.ts";
import { labelFactsChanged, labelFields } from "./facts.ts";
import { type ParsedFolder } from "./folder.ts";
import { LabelFolderFollower } from "./follow-folder.ts";
import { labelGauges, measureRules } from "./metrics.ts";
import { type GivenRules, labelsOnce } from "./once.ts";
import { type LabelRule, labelRuleKind } from "./resource.ts";
import { createLabelRules } from "./rule-documents.ts";
import { describeRule, ruleConditions } from "./status.ts";
import { RuleTally } from "./tally.ts";

/** Settings from command-line flags. */
export interface LabelFlags {
  readonly labelFolder?: LabelFolderSource;
  /** Options for `LabelRule` documents, from files and from the cluster. Default: rules may write no reserved key. */
  readonly ruleOptions?: LabelOptions;
  readonly config?: readonly unknown[];
}

export const derivedLabels: NodeCapability<LabelFlags, GivenRules> = {
  name: labels.name,
  kinds: [labelFolderKind, labelRuleKind],
  fields: labelFields,
  changed: labelFactsChanged,
  once: labelsOnce,
  wire,
};

function wire(host: NodeHost & LabelFlags): Wired {
  const { nodes, installation, log, ruleOptions = defaultLabelOptions } = host;
  let parsed: ParsedFolder | undefined;
  const viewOf = (node: Node): NodeView => ({ node, owned: ownedMarks(recordOf(node), installation) });
  const capability = bindCapability(labels, {
    config: () => documents.inForce?.rules,
    observe: (view) => view,
  });
  const tally = new RuleTally({ onChange: (rule) => documents.askRule(rule) });
  const counts = new NodeCounts({ nodes, tally, onDone: () => documents.askAll() });
  measureRules(host, tally);
  const documents: HeldDocuments<LabelRuleSpec, AssembledRules, LabelRule> = followNodeDocuments(host, {
    rules: createLabelRules({
      options: ruleOptions,
      folder: () => parsed,
      nodes: () => (nodes.synced ? Iterator.from(nodes.list()).map(viewOf) : undefined),
    }),
    capability: labels.name,
    gauges: labelGauges,
    count: ({ rules }) => rules.count,
    faults: ({ faults }) => [
      ...(parsed?.problems ?? []),
      ...documents.source.configFaults(),
      ...faults.filter(({ source }) => source === "cluster"),
    ],
    counts,
    // The nodes can now be counted, so decide the rules that waited for that.
    onKnown: () => documents.inForce?.waiting.size && documents.source.refresh(),
    onChange() {},
    action: "KeepRule",
    isGood: ({ type, status, reason }) =>
      type === ruleConditions.ready && status === "True" && reason !== reasons.RulesOverlap,
    decide: (rule: LabelRule, result, name) =>
      describeRule({
        rule,
        result,
        counts: counts.of(name),
        frozen: host.frozen().find((one) => one.rule === name),
      }),
  });
  followFolder(host, (read) => {
    parsed = read;
    documents.source.refresh();
  });
  return {
    capability,
    // Without the CRD the cluster has no label rules. A gate that waits for labels then uses only rules of files.
    facts: { capability, known: () => documents.source.clusterRead || documents.objects.absent },
    observer: counts,
    onFrozen(rule, frozen) {
      documents.askRule(rule);
      if (frozen)
        log.error("removals are frozen: too many nodes would lose labels of the rule at once", { rule });
      else log.info("removals go on", { rule });
    },
  };
}

function followFolder(host: NodeHost & LabelFlags, onRules: (read: ParsedFolder | undefined) => void): void {
  const { config = [], labelFolder, clock, log, filesRead: whenTold } = host;
  const onFault = (fault: Parameters<typeof host.onFault>[0]): void => host.onFault(fault);
  const folder = new LabelFolderFollower({ whenTold, clock, log, onRules, onFault });
  if (config.length === 0) folder.follow(labelFolder);
  host.onFiles((read) => folder.follow(read.specOf(labelFolderKind)));
  host.add([folder]);
}
