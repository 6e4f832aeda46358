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

/** Which sources a policy is made of. @param unsettled Another one may still be read. */
export function policySources(
  sources: readonly { readonly source: SourceName }[],
  unsettled: boolean,
): Pick<Policy, "sourcesRead" | "unsettled"> {
  const sourcesRead = new Set<string>(sources.map(({ source }) => source));
  return {
    sourcesRead,
    ...(unsettled && { unsettled: { sources: sourcesRead, deleted: new Set<string>() } }),
  };
}
