/** Where documents come from, what of the cluster was read, and what is wrong with single documents. */

import type { ObjectMeta } from "@berth/kube";
import type * as z from "zod";
import type { DocumentObject } from "./document-kind.ts";
import type { Fault } from "./fault.ts";
import type { Document, LocatedDocument } from "./read-documents.ts";

/** The sources of documents, as rules are recorded with them. */
export type SourceName = "config" | "cluster";

/** The name of the rule that a document makes: `cluster/gpu`. */
export function ruleName(source: SourceName, name: string): string {
  return `${source}/${name}`;
}

/** The document of a rule; `undefined` when the rule does not come from this source. */
export function documentName(rule: string, source: SourceName): string | undefined {
  const prefix = ruleName(source, "");
  return rule.startsWith(prefix) ? rule.slice(prefix.length) : undefined;
}

/** The documents of one source that was read completely. */
export interface SourceDocuments<D> {
  readonly source: SourceName;
  readonly documents: readonly D[];
  /** Documents whose `spec` does not pass the schema: name, and why. */
  readonly unreadable?: readonly { readonly name: string; readonly message: string }[];
}

/**
 * Why documents may be missing. `reading`: a source has yet to be read, and what is in none of the others may be there.
 * Otherwise the cluster may not have got all of its objects; only those in `deleted` are known to be deleted.
 */
export type Unsettled = "reading" | { readonly deleted: ReadonlySet<string> };

/** What is wrong with a document beyond its schema. */
export interface DocumentFault<R extends string = string> {
  /** Name of the document. */
  readonly name: string;
  readonly source: string;
  /** Path of the field inside `spec`. */
  readonly path: readonly (string | number)[];
  readonly reason: R;
  readonly message: string;
  /** `warning`: the document is in force all the same. Default `error`. */
  readonly severity?: Fault["severity"];
}

/** The objects of one kind in a cluster, read. */
export interface ClusterDocuments<S> extends SourceDocuments<Document<S>> {
  readonly source: "cluster";
  readonly unreadable: readonly { readonly name: string; readonly message: string }[];
  /** All objects by name, as they were read. */
  readonly objects: ReadonlyMap<string, DocumentObject>;
}

/** The server has its schema, ours may be of another release: nothing is taken on trust. Total. */
export function readClusterDocuments<S>(
  { spec: schema }: { readonly spec: z.ZodType<S> },
  found: Iterable<DocumentObject>,
): ClusterDocuments<S> {
  const documents: Document<S>[] = [];
  const unreadable: { name: string; message: string }[] = [];
  const objects = new Map<string, DocumentObject>();
  for (const object of found) {
    const { name = "", annotations = {} } = object.metadata ?? {};
    objects.set(name, object);
    const parsed = schema.safeParse(object.spec);
    if (parsed.success) documents.push({ name, annotations, spec: parsed.data });
    else {
      const [issue] = parsed.error.issues;
      const where = ["spec", ...(issue?.path ?? [])].map(String).join(".");
      unreadable.push({ name, message: `${where}: ${issue?.message ?? "is not valid"}` });
    }
  }
  documents.sort((a, b) => (a.name < b.name ? -1 : 1));
  return { source: "cluster", documents, unreadable, objects };
}

/** Which version of a document: the same name may come to stand for another object. */
export type DocumentVersion = Pick<ObjectMeta, "uid" | "generation">;

/** What became of one version of a document. */
export interface DocumentResult {
  readonly ready: boolean;
  readonly reason: string;
  readonly message: string;
}

/** Faults of documents of files, each with its place. @param located all documents of files. */
export function fileFaults(
  located: readonly LocatedDocument[],
  faults: readonly DocumentFault[],
  describe: (fault: DocumentFault) => string = textOf,
): readonly Fault[] {
  return faultsOf("config", faults).map((fault): Fault => {
    const { name, path, reason, severity = "error" } = fault;
    const found = located.find((it) => it.name === name);
    const told: Fault = {
      file: found?.file ?? name,
      severity,
      reason,
      message: `${name}: ${describe(fault)}`,
    };
    return found === undefined ? told : Object.assign(told, found.positionOf(path));
  });
}

/** Faults of documents of the cluster, for a command that shows them on the terminal. @param kind in lower case. */
export function clusterFaults(kind: string, faults: readonly DocumentFault[]): readonly Fault[] {
  return faultsOf("cluster", faults).map((fault) => {
    const { name, reason, severity = "error" } = fault;
    return { file: `${kind}/${name}`, severity, reason, message: textOf(fault) };
  });
}

function faultsOf(source: SourceName, faults: readonly DocumentFault[]): readonly DocumentFault[] {
  return faults.filter((fault) => fault.source === source);
}

/** The fault with its field. */
export function textOf({ path, message }: DocumentFault): string {
  return path.length === 0 ? message : `spec.${path.join(".")}: ${message}`;
}
