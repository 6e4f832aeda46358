/** Derived labels in a command that reads the rules once. */
import {
  assembleReadDocuments,
  type ClusterDocuments,
  counted,
  type Documents,
  type Fault,
  listDocuments,
  readClusterDocuments,
  ruleName,
} from "@berth/host";
import { reasons } from "../api/reasons.ts";
import { type DocumentWarning, silencing, warn } from "../api/warnings.ts";
import { isFreshlyConfirmed } from "../node/breaker.ts";
import { type BoundCapability, bindCapability } from "../node/capability.ts";
import type { PlannedNodes } from "../node/once.ts";
import {
  isTried,
  type OnceCapability,
  type ReadOptions,
  replaced,
  stopsOf,
} from "../node/once-capability.ts";
import { labels } from "./capability.ts";
import { confirmedAt, type LabelRuleDocument } from "./compile.ts";
import type { LabelOptions } from "./config.ts";
import type { LabelRuleSpec } from "./document.ts";
import type { ParsedFolder } from "./folder.ts";
import { labelRuleKind } from "./resource.ts";
import { createLabelRules } from "./rule-documents.ts";

/** The label folder and its options that the user gives to a command. */
export interface GivenRules {
  readonly options: LabelOptions;
  readonly folder: ParsedFolder | undefined;
  /** Faults of the folder. */
  readonly faults: readonly Fault[];
}

export const labelsOnce = (given: GivenRules): OnceCapability => ({
  does: ["nodes", "facts"],
  async read(options) {
    const { files, session, tried, waiting } = options;
    const found = session && (await listDocuments(labelRuleKind, session));
    const read = found && readClusterDocuments(labelRuleKind, found);
    const located = tried?.documentsOf(labelRuleKind) ?? [];
    const cluster = tried === undefined ? read : replaced(located, read);
    const { capability, isGiven, faults } = assembleReadRules(given, options, cluster);
    const isOfTried = (fault: Fault): boolean => isTried(fault, labelRuleKind.kind, located);
    const before = tried === undefined ? faults : assembleReadRules(given, options, read).faults;
    return {
      isGiven,
      stops: stopsOf(before, faults, isOfTried),
      // With `wait` the compiled rules hold back what waits and show that reason, so it is no fault.
      faults: waiting === "act" ? faults : [],
      refused: faults.filter(isOfTried),
      facts: capability,
      async plan() {
        const labelling = new Set<string>();
        return {
          capability,
          add(_, { decision: { marks } }) {
            for (const { rule } of marks) labelling.add(rule);
          },
          section(planned) {
            const rules = rulesByName(files.settings, cluster);
            if (!planned.isWhole) return { data: {}, blocks: () => [] };
            return {
              data: {},
              blocks: () => [],
              notes: ruleNotes(planned, rules),
              warnings: idleRules(planned, rules, labelling),
            };
          },
        };
      },
      explain: async () => ({ capability }),
    };
  },
});

/** Compiles the rules of files and of the cluster together. */
function assembleReadRules(
  given: GivenRules,
  { files, waiting }: Pick<ReadOptions, "files" | "waiting">,
  cluster: ClusterDocuments<LabelRuleSpec> | undefined,
): { readonly capability: BoundCapability; readonly faults: readonly Fault[]; readonly isGiven: boolean } {
  const { options, folder } = given;
  const rules = createLabelRules({
    options,
    folder: () => folder,
    nodes: () => [],
    waitsByStatus: waiting === "wait",
  });
  const { inForce, faults } = assembleReadDocuments(rules, files, cluster);
  const config = () => inForce?.rules;
  return {
    capability: bindCapability(labels, { config, observe: (view) => view }),
    faults: [...given.faults, ...faults],
    isGiven: inForce !== undefined,
  };
}

/** Documents of files and of the cluster by rule name, `config/x` and `cluster/x`. */
function rulesByName(
  settings: Documents,
  cluster: ClusterDocuments<LabelRuleSpec> | undefined,
): ReadonlyMap<string, LabelRuleDocument> {
  return new Map([
    ...settings.documentsOf(labelRuleKind).map((rule) => [ruleName("config", rule.name), rule] as const),
    ...(cluster?.documents ?? []).map((rule) => [ruleName("cluster", rule.name), rule] as const),
  ]);
}

/** One sentence for each rule that labels no node: often its author has mistyped a key. */
function idleRules(
  { diff: { looked } }: PlannedNodes,
  rules: ReadonlyMap<string, LabelRuleDocument>,
  labelling: ReadonlySet<string>,
): readonly DocumentWarning[] {
  if (looked === 0) return [];
  return [...rules].flatMap(([rule, { name, spec, annotations }]) => {
    const isIdle = !spec.dryRun && !labelling.has(rule);
    const message = `${rule} labels none of ${counted(looked, "node")}: \`berth explain node NAME --rule ${name}\` shows why`;
    return warn(
      { rule, ...silencing({ annotations }) },
      reasons.RuleLabelsNothing,
      isIdle ? message : undefined,
    );
  });
}

/** One sentence for each rule that `run` would not carry out at once. */
function ruleNotes(
  { rules: forecasts, diff: { looked: nodes }, now }: PlannedNodes,
  rules: ReadonlyMap<string, LabelRuleDocument>,
): readonly string[] {
  return forecasts.flatMap(({ rule, touched, losing, carrying, delayMs, frozen }): readonly string[] => {
    const document = rules.get(rule);
    if (document === undefined) return [];
    const { spec, name } = document;
    const at = confirmedAt(document);
    const { confirmAbovePercent: percent } = spec;
    if (percent !== undefined && at === undefined && touched * 100 > percent * nodes) {
      return [
        `${rule} changes ${touched} of ${nodes} nodes, more than ${percent} %: if it is new or edited it waits for \`berth confirm ${name}\`.`,
      ];
    }
    if (frozen && !isFreshlyConfirmed(at, now)) {
      return [
        `${rule}: ${losing} of ${carrying} nodes would lose its labels at once, too many: none is removed until \`berth confirm ${name}\`.`,
      ];
    }
    return losing > 0 && delayMs > 0
      ? [`${rule}: its labels are removed from ${losing} of ${carrying} nodes after ${delayMs / 1000} s.`]
      : [];
  });
}
