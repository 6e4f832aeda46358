/** From `ArchitecturePolicy` documents to policies in force. */

import {
  type DocumentFault,
  type DocumentRules,
  durationMs,
  ruleName,
  type SourceDocuments,
  type SourceName,
  type Unsettled,
} from "@berth/host";
import { reasons } from "../api/reasons.ts";
import type { Policy } from "../node/capability.ts";
import { type MarkId, ownValue, taintId } from "../node/mark.ts";
import type { MarkSet } from "../node/mark-set.ts";
import { selectorFaults } from "../node/selector.ts";
import { policySources } from "../node/sources.ts";
import { DOMAINS_OF_KUBERNETES, domainOf, STARTUP_DOMAINS } from "../node/taint-domains.ts";
import { type ArchitecturePolicySpec, BOOTSTRAP_ANNOTATION, ORIGINAL_ARCHITECTURE_KEY } from "./document.ts";
import {
  type ArchitectureDocument,
  type ArchitecturePolicies,
  type ArchitecturePolicyInForce,
  taints,
} from "./policy.ts";
import { architecturePolicyKind } from "./resource.ts";

export interface CompileArchitectureInput {
  /** In order of precedence: of two policies with one name the first is in force. */
  readonly sources: readonly SourceDocuments<ArchitectureDocument>[];
  /**
   * Policies as they were in force until now. One whose document has got a fault goes on as it was: to drop it would let
   * new pods wait for ever on nodes that are tainted, and to take the taints off would let pods go where they cannot run.
   */
  readonly before?: Iterable<ArchitecturePolicyInForce>;
  /** Another source may still be read: a taint whose policy is in none of these may be of one there. */
  readonly unsettled?: Unsettled | undefined;
}

/** Whatever its effect: the contract gives all taints with the original key to whoever keeps to it. */
const ORIGINAL_PREFIX = `taint/${ORIGINAL_ARCHITECTURE_KEY}:`;

/** Total: a document with a fault is reported and not in force, or in force as it was before; the others are. */
export function compileArchitecture(input: CompileArchitectureInput): ArchitecturePolicies {
  const before = new Map([...(input.before ?? [])].map((policy) => [policy.rule, policy]));
  const taken = new Map<string, ArchitecturePolicyInForce>();
  const faults: DocumentFault[] = [];
  for (const source of input.sources) {
    for (const { name, found, policy } of readSource(source)) {
      const report = ({ path, message }: Found): void => {
        const reason = reasons.ArchitecturePolicyInvalid;
        faults.push({ name, source: source.source, path, reason, message });
      };
      for (const fault of found) report(fault);
      const first = taken.get(name);
      const inForce = found.length === 0 ? policy : before.get(policy?.rule ?? ruleName(source.source, name));
      if (first !== undefined)
        report({ path: [], message: `${first.rule} has the same name and is in force` });
      else if (inForce !== undefined) taken.set(name, inForce);
    }
  }
  const policies = [...taken.values()].sort(byPrecedence);
  return { policies, policy: policyOf(policies, input), faults };
}

type Found = Pick<DocumentFault, "path" | "message">;

/** One document as it was read; `policy` is absent when its `spec` does not pass the schema. */
interface ReadDocument {
  readonly name: string;
  readonly found: readonly Found[];
  readonly policy?: ArchitecturePolicyInForce;
}

function readSource({
  source,
  documents,
  unreadable = [],
}: SourceDocuments<ArchitectureDocument>): readonly ReadDocument[] {
  return [
    ...unreadable.map(({ name, message }) => ({ name, found: [{ path: [], message }] })),
    ...documents.map((document) => ({
      name: document.name,
      found: checkDocument(document),
      policy: toPolicy(source, document),
    })),
  ];
}

function toPolicy(
  source: SourceName,
  { name, spec, annotations }: ArchitectureDocument,
): ArchitecturePolicyInForce {
  return {
    rule: ruleName(source, name),
    name,
    spec,
    maxHoldMs: durationMs(spec.maxHold),
    confirmed: ownValue(annotations, BOOTSTRAP_ANNOTATION) === "true",
  };
}

function byPrecedence(a: ArchitecturePolicyInForce, b: ArchitecturePolicyInForce): number {
  return b.spec.priority - a.spec.priority || (a.name < b.name ? -1 : 1);
}

function checkDocument({ spec }: ArchitectureDocument): readonly Found[] {
  const found: Found[] = [
    ...selectorFaults(spec.namespaceSelector, ["namespaceSelector"]),
    ...selectorFaults(spec.podSelector, ["podSelector"]),
    ...selectorFaults(spec.taint.nodeSelector, ["taint", "nodeSelector"]),
  ];
  if (placeOf({ spec }) === undefined) return found;
  const domain = domainOf(spec.taint.key);
  const path = ["taint", "key"];
  if (DOMAINS_OF_KUBERNETES.has(domain)) {
    found.push({ path, message: "Kubernetes itself sets and takes off taints of this domain" });
  } else if (STARTUP_DOMAINS.has(domain)) {
    found.push({ path, message: "taints of this domain are taken off once a node has started" });
  }
  return found;
}

/** Where it taints nodes; `undefined` for one that does not, or leaves that to somebody else. */
export function placeOf(policy: Pick<ArchitecturePolicyInForce, "spec">): MarkId | undefined {
  const { key, nodes } = policy.spec.taint;
  return taints(policy) && nodes === "Taint" ? taintId(key, "NoSchedule") : undefined;
}

/** The original key belongs to this capability alone while a policy taints with it, whatever stands there. */
export function isExclusivePlace(id: MarkId): boolean {
  return id.startsWith(ORIGINAL_PREFIX);
}

/** The keys that pods have to tolerate, each once: those of all policies that taint or count on taints. Sorted. */
export function taintKeys({ policies }: Pick<ArchitecturePolicies, "policies">): readonly string[] {
  return [...new Set(policies.filter(taints).map(({ spec }) => spec.taint.key))].sort();
}

function policyOf(
  policies: readonly ArchitecturePolicyInForce[],
  { sources, unsettled }: CompileArchitectureInput,
): Policy {
  const places = new Set(policies.map(placeOf).filter((id) => id !== undefined));
  const isOriginal = [...places].some(isExclusivePlace);
  const prefixes = isOriginal ? [ORIGINAL_PREFIX] : [];
  const declared: MarkSet = { ids: places, prefixes };
  return {
    ...policySources(sources, unsettled, new Set(policies.map(({ rule }) => rule))),
    declared,
    // The document names the key: that of GKE is `kubernetes.io/arch`.
    allowedProtected: declared,
    exclusive: { ids: new Set(), prefixes },
    places,
  };
}

export const architectureRules: DocumentRules<ArchitecturePolicySpec, ArchitecturePolicies> = {
  kind: architecturePolicyKind,
  compile: ({ before, ...known }) => compileArchitecture({ ...known, before: before?.policies ?? [] }),
  faultsOf: ({ faults }) => faults,
  resultOf: () => ({ ready: true, reason: reasons.ArchitecturePolicyInForce, message: "in force" }),
};
