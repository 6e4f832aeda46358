/** Connects the components for label rules in a running Berth. */
import { collectGauges } from "@berth/host";
import type { Node } from "@berth/kube";
import { reasons } from "../api/reasons.ts";
import { bindCapability, type NodeView } from "../node/capability.ts";
import { createDocumentGauges, type DocumentGauges } from "../node/document-gauges.ts";
import { NodeCounts } from "../node/pass.ts";
import { ownedMarks, recordOf } from "../node/record.ts";
import type { NodeCapability, NodeHost, Wired } from "../node/wired.ts";
import { labels } from "./capability.ts";
import { defaultLabelOptions, type LabelFolderSource, type LabelOptions, labelFolderKind } from "./config.ts";
import { labelFactsChanged, labelFields } from "./facts.ts";
import { type ParsedFolder } from "./folder.ts";
import { LabelFolderFollower } from "./follow-folder.ts";
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

export const labelGauges: DocumentGauges = {
  inForce: { name: "berth_label_rules", help: "Label rules in force." },
  problems: {
    name: "berth_label_rule_problems",
    help: "Faults in the label rules as last read, by reason.",
    byReason: true,
  },
};

function wire(host: NodeHost & LabelFlags): Wired {
  const { config = [], labelFolder, ruleOptions = defaultLabelOptions } = host;
  const { nodes, installation, clock, log } = host;
  const taken = createDocumentGauges(host.metrics, labelGauges);
  let parsed: ParsedFolder | undefined;
  const viewOf = (node: Node): NodeView => ({ node, owned: ownedMarks(recordOf(node), installation) });
  const capability = bindCapability(labels, {
    config: () => documents.inForce?.rules,
    observe: (view) => view,
  });
  const tally = new RuleTally({ onChange: (rule) => documents.askRule(rule) });
  const counts = new NodeCounts({ nodes, tally, onDone: () => documents.askAll() });
  collectGauges(host.metrics, [
    [
      "berth_label_conflict_nodes",
      "Nodes on which two rules match and want different values for one label.",
      () => tally.conflicts,
    ],
    [
      "berth_label_frozen_rules",
      "Rules whose removals are frozen because too many nodes would lose labels at once.",
      () => host.frozen().length,
    ],
  ]);
  const documents = host.documents({
    rules: createLabelRules({
      options: ruleOptions,
      folder: () => parsed,
      nodes: () => (nodes.synced ? Iterator.from(nodes.list()).map(viewOf) : undefined),
    }),
    capability: labels.name,
    onChange({ rules, faults }) {
      const ofObjects = faults.filter(({ source }) => source === "cluster");
      taken(rules.count, [...(parsed?.problems ?? []), ...documents.source.configFaults(), ...ofObjects]);
      host.recheckAll();
    },
    onKnown() {
      // The nodes can now be counted, so decide the rules that waited for that.
      if ((documents.inForce?.waiting.size ?? 0) > 0) documents.source.refresh();
      counts.check();
    },
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
  const folder = new LabelFolderFollower({
    whenTold: host.filesRead,
    clock,
    log,
    onRules(read) {
      parsed = read;
      documents.source.refresh();
    },
    onFault: (fault) => host.onFault(fault),
  });
  if (config.length === 0) folder.follow(labelFolder);
  host.onFiles((read) => folder.follow(read.specOf(labelFolderKind)));
  host.add([folder]);
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
