import { type DocumentFault, ruleName, type SourceDocuments } from "./sources.ts";

/** A fault of a document, without its place. `reason`: default that of all faults. */
export type FoundFault = Pick<DocumentFault, "path" | "message"> & { readonly reason?: string };

export interface ByName<D extends Named, R extends Compiled> {
  /** Of each fault. `ofTwins`: where the name is taken; default the same. */
  readonly reason: string;
  readonly ofTwins?: string;
  /** What the schema cannot find. */
  readonly check: (document: D, rule: string) => readonly FoundFault[];
  /** `undefined`: only of a document in which `check` finds a fault. */
  readonly make: (document: D, rule: string) => R | undefined;
  /** Warnings about a document that is in force. Default none. */
  readonly warn?: (one: R) => readonly FoundFault[];
  /** What it must not share with those that came first, besides the name. Default: nothing. */
  readonly clashes?: (one: R, first: readonly R[]) => readonly FoundFault[];
  /** Those in force until now: one whose document gets a fault stays as it was. Default: it is left out. */
  readonly before?: Iterable<R> | undefined;
  /** A document with a fault keeps its name from a second one too. Default: the first without a fault is in force. */
  readonly keepsName?: true;
}

interface Named {
  readonly name: string;
}

interface Compiled {
  readonly rule: string;
}

/** Total: reports each document with a fault, and of two documents with one name the second. */
export function compileByName<D extends Named, R extends Compiled>(
  sources: readonly SourceDocuments<D>[],
  { reason, ofTwins = reason, check, make, warn, clashes = () => [], before = [], keepsName }: ByName<D, R>,
): { readonly inForce: readonly R[]; readonly faults: readonly DocumentFault[] } {
  const last = new Map(Array.from(before, (one) => [one.rule, one]));
  const taken = new Map<string, string>();
  const inForce: R[] = [];
  const faults: DocumentFault[] = [];
  for (const { source, unreadable = [], documents } of sources) {
    const take = (name: string, rule: string, own: readonly FoundFault[], made?: R): void => {
      const first = taken.get(name);
      const twice =
        first === undefined
          ? []
          : [{ path: [], reason: ofTwins, message: `${first} has the same name and goes before it` }];
      const found = [...own, ...twice, ...(made ? clashes(made, inForce) : [])];
      for (const fault of found) faults.push({ name, source, reason, ...fault });
      const stays = last.get(rule);
      const one =
        found.length === 0 ? made : stays && clashes(stays, inForce).length === 0 ? stays : undefined;
      if (first !== undefined || (one === undefined && !keepsName)) return;
      taken.set(name, rule);
      if (one === undefined) return;
      inForce.push(one);
      for (const fault of warn?.(one) ?? [])
        faults.push({ name, source, reason, severity: "warning", ...fault });
    };
    for (const { name, message } of unreadable) take(name, ruleName(source, name), [{ path: [], message }]);
    for (const document of documents) {
      const rule = ruleName(source, document.name);
      take(document.name, rule, check(document, rule), make(document, rule));
    }
  }
  return { inForce, faults };
}
