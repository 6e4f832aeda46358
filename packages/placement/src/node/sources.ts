/** Where the documents of capabilities come from, and what is said of them. */
import type { Reason } from "../api/reasons.ts";
import type { Policy } from "./capability.ts";

/** As recorded on nodes. */
export type SourceName = "config" | "cluster";

/** The documents of one source that was read completely. */
export interface SourceDocuments<D> {
  readonly source: SourceName;
  readonly documents: readonly D[];
  /** Documents whose `spec` does not pass the schema: name, and why. */
  readonly unreadable?: readonly { readonly name: string; readonly message: string }[];
}

/** What is wrong with a document beyond its schema. */
export interface SourceFault {
  readonly source: string;
  /** Path of the field inside `spec`. */
  readonly path: readonly (string | number)[];
  readonly reason: Reason;
  readonly message: string;
}

/**
 * Why documents may be missing. `reading`: a source has yet to be read, and what is in none of the others may be there.
 * Otherwise the cluster may not have got all of its objects; only those in `deleted` are known to be deleted.
 */
export type Unsettled = "reading" | { readonly deleted: ReadonlySet<string> };

/** What a policy says of the sources that its rules are from. */
export function policySources(
  sources: readonly { readonly source: SourceName }[],
  unsettled: Unsettled | undefined,
  rules: ReadonlySet<string>,
): Pick<Policy, "sourcesRead" | "unsettled" | "isUndecided" | "isReading" | "rules"> {
  const sourcesRead = new Set<string>(sources.map(({ source }) => source));
  if (unsettled === undefined) return { sourcesRead, rules };
  if (unsettled === "reading")
    return {
      sourcesRead,
      rules,
      unsettled: { sources: sourcesRead, deleted: new Set() },
      isUndecided: true,
      isReading: true,
    };
  const { deleted } = unsettled;
  return {
    sourcesRead,
    rules,
    unsettled: { sources: new Set(["cluster"]), deleted },
    ...(rules.size + deleted.size === 0 && { isUndecided: true }),
  };
}
