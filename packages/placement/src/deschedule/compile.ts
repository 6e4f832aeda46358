/** From `DeschedulePolicy` documents to policies in force. */
import { type DocumentFault, type DocumentRules, durationMs, ruleName } from "@berth/host";
import { reasons } from "../api/reasons.ts";
import { selectorFaults } from "../node/selector.ts";
import type { DeschedulePolicySpec } from "./document.ts";
import type { DeschedulePolicies, DeschedulePolicyInForce } from "./policy.ts";
import { deschedulePolicyKind } from "./resource.ts";

type Rules = DocumentRules<DeschedulePolicySpec, DeschedulePolicies>;

/**
 * Total: reports each document with a fault and leaves it out, so its pods stay. Of two documents with one name, the
 * first is in force.
 */
export function compileDeschedule({
  sources,
}: Pick<Parameters<Rules["compile"]>[0], "sources">): DeschedulePolicies {
  const taken = new Map<string, DeschedulePolicyInForce>();
  const faults: DocumentFault[] = [];
  for (const { source, documents, unreadable = [] } of sources) {
    const fault = (name: string, path: DocumentFault["path"], message: string): void =>
      void faults.push({ name, source, path, reason: reasons.DeschedulePolicyInvalid, message });
    for (const { name, message } of unreadable) fault(name, [], message);
    for (const { name, spec } of documents) {
      const first = taken.get(name);
      const found = [
        ...selectorFaults(spec.namespaceSelector, ["namespaceSelector"]),
        ...selectorFaults(spec.podSelector, ["podSelector"]),
        ...(first === undefined
          ? []
          : [{ path: [], message: `${first.rule} has the same name and is in force` }]),
      ];
      for (const { path, message } of found) fault(name, path, message);
      if (found.length > 0) continue;
      const [forMs, minAgeMs] = [durationMs(spec.for), durationMs(spec.minAge)];
      taken.set(name, { rule: ruleName(source, name), name, spec, forMs, minAgeMs });
    }
  }
  return { policies: [...taken.values()], faults };
}

export const descheduleRules: Rules = {
  kind: deschedulePolicyKind,
  compile: compileDeschedule,
  faultsOf: ({ faults }) => faults,
  resultOf({ spec }) {
    return spec.dryRun
      ? {
          ready: true,
          reason: reasons.DryRun,
          message: "in dry run: it decides and counts, and evicts nothing",
        }
      : { ready: true, reason: reasons.DeschedulePolicyInForce, message: "in force" };
  },
};
