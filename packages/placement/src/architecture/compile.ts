/** From `ArchitecturePolicy` documents to policies in force. */

import { compileByName, type DocumentRules, durationMs, type FoundFault } from "@berth/host";
import { reasons } from "../api/reasons.ts";
import type { Policy } from "../node/capability.ts";
import { type MarkId, ownValue, taintId } from "../node/mark.ts";
import type { MarkSet } from "../node/mark-set.ts";
import { selectorFaults } from "../node/selector.ts";
import { policySources, refusedRules } from "../node/sources.ts";
import { DOMAINS_OF_KUBERNETES, domainOf, STARTUP_DOMAINS } from "../node/taint-domains.ts";
import { type ArchitecturePolicySpec, BOOTSTRAP_ANNOTATION, ORIGINAL_ARCHITECTURE_KEY } from "./document.ts";
import { type ArchitecturePolicies, type ArchitecturePolicyInForce, taints } from "./policy.ts";
import { architecturePolicyKind } from "./resource.ts";

type ArchitectureRules = DocumentRules<ArchitecturePolicySpec, ArchitecturePolicies>;

type Known = Parameters<ArchitectureRules["compile"]>[0];

/** Any effect: by the contract, all taints with the original key belong to the controller that implements it. */
const ORIGINAL_PREFIX = `taint/${ORIGINAL_ARCHITECTURE_KEY}:`;

/**
 * Total: reports each document with a fault, and puts the others in force. Of two documents with one name, the first is
 * in force. A policy that gets a fault stays in force as before. Without the policy, new pods would wait forever for
 * tainted nodes. Without its taints, pods could land where they cannot run.
 */
export function compileArchitecture(
  known: Pick<Known, "sources"> & Partial<Pick<Known, "before" | "unsettled">>,
): ArchitecturePolicies {
  const { inForce, faults } = compileByName(known.sources, {
    reason: reasons.ArchitecturePolicyInvalid,
    check: ({ spec }) => checkSpec(spec),
    make: ({ name, spec, annotations }, rule): ArchitecturePolicyInForce => ({
      rule,
      name,
      spec,
      maxHoldMs: durationMs(spec.maxHold),
      confirmed: ownValue(annotations, BOOTSTRAP_ANNOTATION) === "true",
    }),
    before: known.before?.policies,
  });
  // Of equal priority, the one that came first governs: a newer one takes no pods from it.
  const policies = inForce.toSorted((a, b) => b.spec.priority - a.spec.priority);
  const policy = { ...policyOf(policies, known), refused: refusedRules(policies, faults) };
  return { policies, policy, faults };
}

function checkSpec(spec: ArchitecturePolicySpec): readonly FoundFault[] {
  const found: FoundFault[] = [
    ...selectorFaults(spec.namespaceSelector, ["namespaceSelector"]),
    ...selectorFaults(spec.podSelector, ["podSelector"]),
    ...selectorFaults(spec.taint.nodeSelector, ["taint", "nodeSelector"]),
  ];
  if (placeOf({ spec }) === undefined) return found;
  const domain = domainOf(spec.taint.key);
  const path = ["taint", "key"];
  if (DOMAINS_OF_KUBERNETES.has(domain))
    found.push({ path, message: "Kubernetes itself sets and removes taints of this domain" });
  else if (STARTUP_DOMAINS.has(domain))
    found.push({ path, message: "other controllers remove taints of this domain once a node has started" });
  return found;
}

/** The mark by which it taints nodes. `undefined` if it does not taint, or leaves that to another controller. */
export function placeOf(policy: Pick<ArchitecturePolicyInForce, "spec">): MarkId | undefined {
  const { key, nodes } = policy.spec.taint;
  return taints(policy) && nodes === "Taint" ? taintId(key, "NoSchedule") : undefined;
}

/** While a policy taints with the original key, this capability alone owns every taint with that key. */
export function isExclusivePlace(id: MarkId): boolean {
  return id.startsWith(ORIGINAL_PREFIX);
}

/** The keys that pods have to tolerate, each once: those of all policies that taint or count on taints. Sorted. */
export function taintKeys({ policies }: Pick<ArchitecturePolicies, "policies">): readonly string[] {
  return [...new Set(policies.filter(taints).map(({ spec }) => spec.taint.key))].sort();
}

function policyOf(
  policies: readonly ArchitecturePolicyInForce[],
  { sources, unsettled }: Pick<Known, "sources"> & Partial<Pick<Known, "unsettled">>,
): Policy {
  const places = new Set(policies.map(placeOf).filter((id) => id !== undefined));
  const isOriginal = [...places].some(isExclusivePlace);
  const prefixes = isOriginal ? [ORIGINAL_PREFIX] : [];
  const declared: MarkSet = { ids: places, prefixes };
  return {
    ...policySources(sources, unsettled, new Set(policies.map(({ rule }) => rule))),
    declared,
    // The user named the key in the document, so a protected key is allowed. GKE's is `kubernetes.io/arch`.
    allowedProtected: declared,
    exclusive: { ids: new Set(), prefixes },
    places,
  };
}

export const architectureRules: ArchitectureRules = {
  kind: architecturePolicyKind,
  compile: compileArchitecture,
  faultsOf: ({ faults }) => faults,
  resultOf: () => ({ ready: true, reason: reasons.ArchitecturePolicyInForce, message: "in force" }),
};
