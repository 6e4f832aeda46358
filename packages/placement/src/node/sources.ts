/** The fields of a policy that describe the sources of its documents. */
import { type DocumentFault, documentName, type SourceName, type Unsettled } from "@berth/host";
import type { Policy } from "./capability.ts";

/** The rules of documents that a fault keeps out of force. Not one with the name of another that is in force. */
export function refusedRules(
  inForce: readonly { readonly rule: string }[],
  faults: readonly Pick<DocumentFault, "source" | "name">[],
): ReadonlySet<string> {
  const names = new Set(
    inForce.flatMap(({ rule }) => documentName(rule, "cluster") ?? documentName(rule, "config") ?? []),
  );
  const refused = faults.filter(({ name }) => !names.has(name));
  return new Set(refused.map(({ source, name }) => `${source}/${name}`));
}

export function policySources(
  sources: readonly { readonly source: SourceName }[],
  unsettled: Unsettled | undefined,
  rules: ReadonlySet<string>,
): Pick<Policy, "sourcesRead" | "unsettled" | "isUndecided" | "isReading" | "rules"> {
  const sourcesRead = new Set<string>(sources.map(({ source }) => source));
  if (unsettled === undefined) return { sourcesRead, rules };
  if (unsettled === "reading") {
    const none = { sources: sourcesRead, deleted: new Set<string>() };
    return { sourcesRead, rules, unsettled: none, isUndecided: true, isReading: true };
  }
  const { deleted } = unsettled;
  return {
    sourcesRead,
    rules,
    unsettled: { sources: new Set(["cluster"]), deleted },
    ...(rules.size + deleted.size === 0 && { isUndecided: true }),
  };
}
