import { type Document } from "./read-documents.ts";
import { type DocumentFault, ruleName, type SourceDocuments } from "./sources.ts";

/** A fault of a document, without its place. */
export type FoundFault = Pick<DocumentFault, "path" | "message">;

export interface ByName<S, R extends Compiled> {
  /** Of each fault. */
  readonly reason: string;
  /** What the schema cannot find. */
  readonly check: (document: Document<S>) => readonly FoundFault[];
  readonly make: (document: Document<S>, rule: string) => R;
  /** Those in force until now: one whose document gets a fault stays as it was. Default: it is left out. */
  readonly before?: readonly R[] | undefined;
}

interface Compiled {
  readonly rule: string;
}

/** Total: reports each document with a fault. Of two documents with one name, the first without a fault is in force. */
export function compileByName<S, R extends Compiled>(
  sources: readonly SourceDocuments<Document<S>>[],
  { reason, check, make, before = [] }: ByName<S, R>,
): { readonly inForce: readonly R[]; readonly faults: readonly DocumentFault[] } {
  const last = new Map(before.map((one) => [one.rule, one]));
  const taken = new Map<string, R>();
  const faults: DocumentFault[] = [];
  for (const { source, unreadable = [], documents } of sources) {
    const take = (
      name: string,
      found: readonly FoundFault[],
      made: (rule: string) => R | undefined,
    ): void => {
      const rule = ruleName(source, name);
      const first = taken.get(name);
      const twice = first && { path: [], message: `${first.rule} has the same name and is in force` };
      for (const fault of [...found, ...(twice ? [twice] : [])])
        faults.push({ name, source, reason, ...fault });
      const inForce = found.length === 0 ? made(rule) : last.get(rule);
      if (first === undefined && inForce !== undefined) taken.set(name, inForce);
    };
    for (const { name, message } of unreadable) take(name, [{ path: [], message }], () => undefined);
    for (const document of documents) take(document.name, check(document), (rule) => make(document, rule));
  }
  return { inForce: [...taken.values()], faults };
}
