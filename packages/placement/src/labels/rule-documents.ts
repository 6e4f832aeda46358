/** Puts `LabelRule` documents and a label folder into force together. */
import {
  type ClusterDocuments,
  type DocumentFault,
  type DocumentObject,
  type DocumentRules,
  documentName,
  type KnownDocuments,
  ruleName,
  type SourceName,
} from "@berth/host";
import type { Condition } from "@berth/kube";
import { findCondition } from "@berth/runtime";
import { type Reason, reasons } from "../api/reasons.ts";
import type { Silencing } from "../api/warnings.ts";
import type { NodeView } from "../node/capability.ts";
import { type AssembledRules, assembleRules, describeWaiting } from "./active-rules.ts";
import { digestOf } from "./compile.ts";
import type { LabelOptions } from "./config.ts";
import type { LabelRuleSpec } from "./document.ts";
import type { ParsedFolder } from "./folder.ts";
import { type LabelRule, labelRuleKind } from "./resource.ts";
import type { LabelRules } from "./rules.ts";

export interface LabelRuleContext {
  /** Options for rules from documents. A folder has its own options. */
  readonly options: LabelOptions;
  readonly folder: () => ParsedFolder | undefined;
  /** All nodes, to count how many an edit would change; `undefined` while they are not known. */
  readonly nodes: () => Iterable<NodeView> | undefined;
  /** A rule of the cluster waits if its status says so; Berth then counts no nodes. Default false. */
  readonly waitsByStatus?: boolean;
}

/** S-6: a peer may send a review of any rule. 100 characters on 10,000 nodes, which take less than 50 ms. */
const MOST_COMPARED = 1_000_000;

export function createLabelRules(context: LabelRuleContext): DocumentRules<LabelRuleSpec, AssembledRules> {
  const { options, folder, nodes, waitsByStatus = false } = context;
  const compile = (
    { sources, cluster, unsettled, before }: KnownDocuments<LabelRuleSpec, AssembledRules>,
    mostCompared = Number.POSITIVE_INFINITY,
  ): AssembledRules => {
    const set = folder()?.set;
    const young = cluster !== undefined && typeof unsettled === "object" ? { unsettled } : {};
    const documents = sources.map((read) => ({
      ...read,
      complete: true,
      ...(read.source === "cluster" && young),
    }));
    return assembleRules({
      sources: { ...(set && { folder: set }), documents, options },
      nodes: nodes(),
      admitted: new Map([...admittedBefore(cluster), ...(before?.admitted ?? [])]),
      ...(waitsByStatus && { known: waitingBefore(cluster) }),
      mostCompared,
    });
  };
  return {
    kind: labelRuleKind,
    hasMore: () => folder() !== undefined,
    compile: (known) => compile(known),
    tryOut: (known) => compile(known, MOST_COMPARED),
    faultsOf: (assembled) => [...assembled.faults, ...warningsOf(assembled)],
    resultOf({ name, spec }, { waiting, rules }) {
      const rule = ruleName("cluster", name);
      const waits = waiting.get(rule);
      if (waits !== undefined) {
        // Without the nodes Berth cannot tell whether the rule must wait. It may be in force since before a restart.
        if (waits.touched === undefined) return undefined;
        const message = describeWaiting(name, waits);
        return { ready: false, reason: reasons.ConfirmationRequired, message };
      }
      if (spec.dryRun) {
        const message = "in dry run: Berth evaluates it and counts nodes, and changes nothing";
        return { ready: true, reason: reasons.DryRun, message };
      }
      const shared = overlapsOf(rules)
        .filter((overlap) => overlap.rule === rule)
        .map(({ text }) => text);
      return shared.length === 0
        ? { ready: true, reason: reasons.RuleInForce, message: "in force" }
        : { ready: true, reason: reasons.RulesOverlap, message: `in force; ${shared.join("; ")}` };
    },
    describe: ({ message }) => message,
  };
}

/** Warnings about rules of files that wait, and about documents that set a label which another rule sets, too. */
function warningsOf({ waiting, rules }: AssembledRules): readonly DocumentFault[] {
  const found: DocumentFault[] = [];
  const add = (source: SourceName, rule: string, reason: Reason, tell: (name: string) => string): void => {
    const name = documentName(rule, source);
    if (name === undefined) return;
    found.push({ name, source, path: [], severity: "warning", reason, message: tell(name) });
  };
  // Rules of the cluster have a result that says so.
  for (const [rule, waits] of waiting)
    if (waits.touched !== undefined)
      add("config", rule, reasons.ConfirmationRequired, (name) => describeWaiting(name, waits));
  for (const { rule, silenced, text } of overlapsOf(rules))
    if (!silenced.includes(reasons.RulesOverlap))
      for (const source of ["config", "cluster"] as const)
        add(source, rule, reasons.RulesOverlap, () => `${text}; equal values merge`);
  return found;
}

/** For each rule, the labels that other rules set, too. Equal values merge; different values conflict. */
function overlapsOf({ overlaps }: LabelRules): readonly (Required<Silencing> & Overlap)[] {
  return overlaps.flatMap(({ key, claims }) => {
    const rules = [...new Set(claims.map((claim) => claim.rule))];
    return rules.map(({ name: rule, silenced = [] }) => {
      const others = rules.flatMap(({ name }) => (name === rule ? [] : [name])).join(", ");
      return { rule, silenced, text: `${key} is also set by ${others}` };
    });
  });
}

interface Overlap {
  readonly rule: string;
  readonly text: string;
}

/** The specs that were in force before a restart, by their status. They need no new confirmation. */
function admittedBefore(
  cluster: ClusterDocuments<LabelRuleSpec> | undefined,
): readonly (readonly [string, string])[] {
  return (cluster?.documents ?? []).flatMap(({ name, spec }) => {
    if (spec.confirmAbovePercent === undefined) return [];
    const ready = readyOf(cluster?.objects.get(name));
    // A rule in conflict is not ready, but it is in force on the nodes without the conflict.
    const isInForce = ready?.status === "True" || ready?.reason === reasons.RuleConflict;
    return isInForce ? [[ruleName("cluster", name), digestOf(spec)] as const] : [];
  });
}

function waitingBefore(cluster: ClusterDocuments<LabelRuleSpec> | undefined): ReadonlySet<string> {
  const names = [...(cluster?.objects ?? [])].flatMap(([name, object]) =>
    readyOf(object)?.reason === reasons.ConfirmationRequired ? [ruleName("cluster", name)] : [],
  );
  return new Set(names);
}

/** The condition Ready of a rule; `undefined` when it describes an older generation of the spec. */
function readyOf(object: DocumentObject | undefined): Condition | undefined {
  const { metadata, status }: LabelRule = object ?? {};
  const ready = findCondition(status?.conditions, "Ready");
  return ready?.observedGeneration === metadata?.generation ? ready : undefined;
}
