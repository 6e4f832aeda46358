/** The fields of a policy that describe the sources of its documents. */
import type { SourceName, Unsettled } from "@berth/host";
import type { Policy } from "./capability.ts";

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
