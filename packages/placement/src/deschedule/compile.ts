/** From `DeschedulePolicy` documents to policies in force. */
import { compileByName, type DocumentRules, durationMs } from "@berth/host";
import { reasons } from "../api/reasons.ts";
import { silencing } from "../api/warnings.ts";
import { selectorFaults } from "../node/selector.ts";
import type { DeschedulePolicySpec } from "./document.ts";
import type { DeschedulePolicies } from "./policy.ts";
import { deschedulePolicyKind } from "./resource.ts";

type Rules = DocumentRules<DeschedulePolicySpec, DeschedulePolicies>;

/** Leaves out each document with a fault, so its pods stay. */
export function compileDeschedule({
  sources,
}: Pick<Parameters<Rules["compile"]>[0], "sources">): DeschedulePolicies {
  const { inForce: policies, faults } = compileByName(sources, {
    reason: reasons.DeschedulePolicyInvalid,
    check: ({ spec }) => [
      ...selectorFaults(spec.namespaceSelector, ["namespaceSelector"]),
      ...selectorFaults(spec.podSelector, ["podSelector"]),
    ],
    make({ name, spec, annotations }, rule) {
      const times = { forMs: durationMs(spec.for), minAgeMs: durationMs(spec.minAge) };
      return { rule, name, spec, ...times, ...silencing({ annotations }) };
    },
  });
  return { policies, faults };
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
