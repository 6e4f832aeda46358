/** Derived labels in a command, which reads their rules once. */
import { type Fault, listObjects } from "@berth/host";
import {
  assembleRules,
  type BoundCapability,
  bindCapability,
  confirmedAt,
  isFreshlyConfirmed,
  type LabelRuleDocument,
  type LabelRules,
  labelRules,
  labels,
  type PlannedNodes,
  ruleName,
} from "@berth/placement";
import type { Settings } from "./config/settings.ts";
import {
  type ClusterRules,
  clusterFaults,
  configFaults,
  readClusterRules,
  ruleSources,
} from "./label-rules.ts";
import { isTried, type OnceCapability, type ReadOptions, replaced } from "./once.ts";

export const labelsOnce: OnceCapability = {
  name: labels.name,
  does: ["nodes", "facts"],
  async read(options) {
    const { files, session, tried, waiting } = options;
    const found = session && (await listObjects({ resource: labelRules }, session));
    const cluster = tryRules(tried, found && readClusterRules(found));
    const { capability, isGiven, faults } = assembleReadRules(options, cluster);
    return {
      isGiven,
      // What waits is left out by its rule, and told as that.
      faults: waiting === "act" ? faults : [],
      refused: faults.filter((fault) => isTried(fault, labelRules.kind, tried?.labelRules ?? [])),
      facts: capability,
      plan: async () => ({
        capability,
        section: (planned) => ({
          data: {},
          blocks: () => [],
          notes: planned.isWhole ? ruleNotes(planned, rulesByName(files.settings, cluster)) : [],
        }),
      }),
      explain: async () => ({ capability }),
    };
  },
};

/** The rules of the cluster as they would be once these files were applied. */
function tryRules(tried: Settings | undefined, cluster: ClusterRules | undefined): ClusterRules | undefined {
  if (tried === undefined) return cluster;
  const base = cluster ?? {
    documents: [],
    unreadable: [],
    waiting: new Set(),
    inForce: new Set(),
    versions: new Map(),
  };
  return { ...base, ...replaced(tried.labelRules, base) };
}

interface ReadRules {
  readonly capability: BoundCapability;
  readonly faults: readonly Fault[];
  readonly isGiven: boolean;
}

/** Rules of files and of the cluster together. */
function assembleReadRules(
  { files, waiting }: Pick<ReadOptions, "files" | "waiting">,
  cluster: ClusterRules | undefined,
): ReadRules {
  const { settings, options, folder, hasConfig } = files;
  const config = hasConfig ? settings.labelRules : undefined;
  const sources = ruleSources({ folder, config, cluster, options });
  if (sources === undefined)
    return { capability: bindRules(undefined), faults: files.faults, isGiven: false };
  const known = new Set([...(cluster?.waiting ?? [])].map((name) => ruleName("cluster", name)));
  const assembled = assembleRules({ sources, nodes: [], ...(waiting === "wait" && { known }) });
  const faults = [
    ...files.faults,
    ...configFaults(settings.labelRules, assembled),
    ...clusterFaults(cluster, assembled),
  ];
  return { capability: bindRules(assembled.rules), faults, isGiven: true };
}

function bindRules(rules: LabelRules | undefined): BoundCapability {
  return bindCapability(labels, { config: () => rules, observe: (view) => view });
}

/** Documents of files and of the cluster by rule name, `config/x` and `cluster/x`. */
function rulesByName(
  settings: Settings,
  cluster: ClusterRules | undefined,
): ReadonlyMap<string, LabelRuleDocument> {
  return new Map([
    ...settings.labelRules.map((rule) => [ruleName("config", rule.name), rule] as const),
    ...(cluster?.documents ?? []).map((rule) => [ruleName("cluster", rule.name), rule] as const),
  ]);
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
