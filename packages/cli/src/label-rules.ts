import type { Fault } from "@berth/host";
import type { Condition, Node } from "@berth/kube";
import {
  type AssembledRules,
  assembleRules,
  type BoundCapability,
  bindCapability,
  type DocumentSet,
  describeWaiting,
  digestOf,
  documentName,
  type LabelOptions,
  type LabelRule,
  type LabelRuleDocument,
  labelRuleSpec,
  labels,
  type NodeView,
  ownedMarks,
  type ParsedFolder,
  type RuleSources,
  type RuleVerdict,
  reasons,
  recordOf,
  ruleName,
} from "@berth/placement";
import { findCondition, type Lister } from "@berth/runtime";
import type { LocatedLabelRule } from "./config/settings.ts";
import type { ClusterObjects } from "./document-follower.ts";
import { type ClusterDocuments, type DocumentVersion, readClusterDocuments } from "./source-documents.ts";

export interface LabelRuleHubOptions {
  /** Not looked at before they are synced. */
  readonly nodes: Pick<Lister<Node>, "list" | "synced">;
  readonly installation: string;
  /** For rules of documents; a folder has its own. */
  readonly options: LabelOptions;
  /** Rules came into force or ceased to be. */
  readonly onChange: (assembled: AssembledRules) => void;
}

/** The `LabelRule` objects of a cluster, read. */
export interface ClusterRules extends Pick<ClusterDocuments<unknown>, "unreadable" | "versions"> {
  readonly documents: readonly LabelRuleDocument[];
  /** Those whose status says that they wait for a confirmation, by name. */
  readonly waiting: ReadonlySet<string>;
  /** Those whose status says that they are in force as they stand, by name. */
  readonly inForce: ReadonlySet<string>;
  readonly unsettled?: NonNullable<ClusterObjects<LabelRule>["unsettled"]>;
}

/** Total, as `readClusterDocuments`. */
export function readClusterRules(objects: Iterable<LabelRule>): ClusterRules {
  const all = [...objects];
  const named = (is: (ready: Condition) => boolean): ReadonlySet<string> =>
    new Set(
      all.flatMap(({ metadata: { name = "", generation } = {}, status }) => {
        const ready = findCondition(status?.conditions, "Ready");
        return ready !== undefined && ready.observedGeneration === generation && is(ready) ? [name] : [];
      }),
    );
  return {
    ...readClusterDocuments(all, labelRuleSpec),
    waiting: named(({ reason }) => reason === reasons.ConfirmationRequired),
    // A rule in conflict is in force, on all other nodes.
    inForce: named(({ status, reason }) => status === "True" || reason === reasons.RuleConflict),
  };
}

/** All rules that were read. `undefined` is a source that is not there, or not known. */
export interface RulesRead {
  readonly folder: ParsedFolder | undefined;
  readonly config: readonly LabelRuleDocument[] | undefined;
  readonly cluster: ClusterRules | undefined;
  /** For rules of documents; a folder has its own. */
  readonly options: LabelOptions;
}

/** What rules are assembled from; `undefined` without any source. */
export function ruleSources({ folder, config, cluster, options }: RulesRead): RuleSources | undefined {
  const documents: DocumentSet[] = [];
  if (config) documents.push({ source: "config", complete: true, documents: config });
  if (cluster) documents.push(clusterDocuments(cluster));
  if (folder === undefined && documents.length === 0) return undefined;
  return { ...(folder && { folder: folder.set }), documents, options };
}

function clusterDocuments({ documents, unreadable, unsettled }: ClusterRules): DocumentSet {
  return {
    source: "cluster",
    complete: true,
    documents,
    unreadable: unreadable.map(({ name }) => name),
    ...(unsettled && { unsettled }),
  };
}

/** Puts the rules of all sources together, and says of each document what became of it. */
export class LabelRuleHub {
  readonly #options: LabelRuleHubOptions;
  #folder: ParsedFolder | undefined;
  #config: readonly LocatedLabelRule[] | undefined;
  #cluster: ClusterRules | undefined;
  #assembled: AssembledRules | undefined;

  constructor(options: LabelRuleHubOptions) {
    this.#options = options;
  }

  /** The rules in force, as a capability; without any source it has no configuration. */
  readonly capability: BoundCapability = bindCapability(labels, {
    config: () => this.#assembled?.rules,
    observe: (view) => view,
  });

  setFolder(folder: ParsedFolder | undefined): void {
    this.#folder = folder;
    this.#refresh();
  }

  /** `undefined` while no configuration was read. */
  setConfig(rules: readonly LocatedLabelRule[] | undefined): void {
    this.#config = rules;
    this.#refresh();
  }

  /** `undefined` while they are not known. */
  setCluster(read: ClusterObjects<LabelRule> | undefined): void {
    this.#cluster = read && {
      ...readClusterRules(read.objects),
      ...(read.unsettled && { unsettled: read.unsettled }),
    };
    this.#refresh();
  }

  /** The rules of the cluster have been taken over. */
  get clusterRead(): boolean {
    return this.#cluster !== undefined;
  }

  /** From now on the nodes can be counted: what waited for that is decided. */
  nodesKnown(): void {
    if ((this.#assembled?.waiting.size ?? 0) > 0) this.#refresh();
  }

  #refresh(): void {
    const { options, nodes, onChange } = this.#options;
    const sources = ruleSources({
      folder: this.#folder,
      config: this.#config,
      cluster: this.#cluster,
      options,
    });
    if (sources === undefined) {
      this.#assembled = undefined;
      return;
    }
    this.#assembled = assembleRules({
      sources,
      nodes: nodes.synced ? this.#nodes() : undefined,
      admitted: new Map([...this.#admittedBefore(), ...(this.#assembled?.admitted ?? [])]),
    });
    onChange(this.#assembled);
  }

  /** What the process before had in force, as it said in the status: a restart is no edit. */
  #admittedBefore(): readonly (readonly [string, string])[] {
    const { documents = [], inForce } = this.#cluster ?? {};
    return documents
      .filter(({ name, spec }) => spec.confirmAbovePercent !== undefined && inForce?.has(name) === true)
      .map(({ name, spec }) => [ruleName("cluster", name), digestOf(spec)]);
  }

  /** What became of this version of a `LabelRule` of the cluster; `undefined` until it was taken over and judged. */
  verdictOf(name: string, { uid, generation }: DocumentVersion): RuleVerdict | undefined {
    const read = this.#cluster?.versions.get(name);
    if (read === undefined || read.uid !== uid || read.generation !== generation) return undefined;
    const unreadable = this.#cluster?.unreadable.find((one) => one.name === name);
    if (unreadable !== undefined) return refused(reasons.RuleInvalid, unreadable.message);
    const document = this.#cluster?.documents.find((one) => one.name === name);
    const assembled = this.#assembled;
    if (document === undefined || assembled === undefined) return undefined;
    const fault = assembled.faults.get("cluster")?.find(({ rule }) => rule === name);
    if (fault !== undefined) {
      return refused(fault.reason, `spec.${fault.path.join(".")}: ${fault.message}`);
    }
    const waiting = assembled.waiting.get(ruleName("cluster", name));
    // Whether it has to wait is not known before the nodes are: after a restart it may have been in force for long.
    if (waiting !== undefined) {
      const { touched, of } = waiting;
      return touched === undefined
        ? undefined
        : refused(reasons.ConfirmationRequired, describeWaiting(name, document.spec, { touched, of }));
    }
    if (document.spec.dryRun) {
      return {
        ready: true,
        reason: reasons.DryRun,
        message: "on trial: it decides and counts, and changes nothing",
      };
    }
    const shared = sharedLabels(ruleName("cluster", name), assembled);
    return shared.length === 0
      ? { ready: true, reason: reasons.RuleInForce, message: "in force" }
      : { ready: true, reason: reasons.RulesOverlap, message: `in force; ${shared.join("; ")}` };
  }

  /** What is wrong with the documents of files, each with its place. */
  configFaults(): readonly Fault[] {
    return this.#assembled === undefined ? [] : configFaults(this.#config ?? [], this.#assembled);
  }

  *#nodes(): Generator<NodeView> {
    const { nodes, installation } = this.#options;
    for (const node of nodes.list()) yield { node, owned: ownedMarks(recordOf(node), installation) };
  }
}

function refused(reason: RuleVerdict["reason"], message: string): RuleVerdict {
  return { ready: false, reason, message };
}

/** The labels that other rules set as well: they merge where they agree. */
function sharedLabels(rule: string, { rules }: AssembledRules): readonly string[] {
  return rules.overlaps.flatMap(({ key, claims }): readonly string[] => {
    const others = claims.map((claim) => claim.rule.name).filter((name) => name !== rule);
    return others.length < claims.length ? [`${key} is also set by ${others.join(", ")}`] : [];
  });
}

/** Total: every fault, wait and overlap of rules from files, where the file says it. */
export function configFaults(
  rules: readonly LocatedLabelRule[],
  { faults, waiting, rules: compiled }: AssembledRules,
): readonly Fault[] {
  const byName = new Map(rules.map((rule) => [rule.name, rule]));
  const found: Fault[] = [];
  const at = (name: string, path: readonly PropertyKey[]): Pick<Fault, "file" | "line" | "column"> => {
    const rule = byName.get(name);
    return rule === undefined ? { file: name } : { file: rule.file, ...rule.positionOf(path) };
  };
  for (const { rule, path, reason, message } of faults.get("config") ?? []) {
    found.push({ ...at(rule, path), severity: "error", reason, message: `${rule}: ${message}` });
  }
  for (const [name, { touched, of }] of waiting) {
    const rule = byName.get(documentName(name, "config") ?? "");
    if (rule === undefined || touched === undefined) continue;
    const message = `${rule.name}: ${describeWaiting(rule.name, rule.spec, { touched, of })}`;
    found.push({ ...at(rule.name, []), severity: "warning", reason: reasons.ConfirmationRequired, message });
  }
  for (const { key, claims } of compiled.overlaps) {
    const names = claims.map((claim) => claim.rule.name);
    for (const rule of names) {
      const name = documentName(rule, "config");
      if (name === undefined) continue;
      const others = names.filter((it) => it !== rule).join(", ");
      const message = `${name}: ${key} is also set by ${others}; equal values merge`;
      found.push({ ...at(name, []), severity: "warning", reason: reasons.RulesOverlap, message });
    }
  }
  return found;
}

/** The same of the cluster, for a command that shows faults on the terminal. */
export function clusterFaults(
  cluster: ClusterRules | undefined,
  { faults }: AssembledRules,
): readonly Fault[] {
  const severity = "error";
  const found = (faults.get("cluster") ?? []).map(
    ({ rule, path, reason, message }): Fault => ({
      file: `labelrule/${rule}`,
      severity,
      reason,
      message: `spec.${path.join(".")}: ${message}`,
    }),
  );
  for (const { name, message } of cluster?.unreadable ?? []) {
    found.push({ file: `labelrule/${name}`, severity, reason: reasons.RuleInvalid, message });
  }
  return found;
}
