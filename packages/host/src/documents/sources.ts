/** The sources of documents, the documents read from them, and the faults of single documents. */

import type { ObjectMeta } from "@berth/kube";
import type * as z from "zod";
import type { DocumentObject } from "./document-kind.ts";
import type { Fault } from "./fault.ts";
import type { Document, LocatedDocument } from "./read-documents.ts";

/** The sources of documents, as records on nodes name them. */
export type SourceName = "config" | "cluster";

/** The name of the rule from a document: `cluster/gpu`. */
export function ruleName(source: SourceName, name: string): string {
  return `${source}/${name}`;
}

/** The name of the rule's document; `undefined` when the rule comes from another source. */
export function documentName(rule: string, source: SourceName): string | undefined {
  const prefix = ruleName(source, "");
  return rule.startsWith(prefix) ? rule.slice(prefix.length) : undefined;
}

/** The documents of one source that was read completely. */
export interface SourceDocuments<D> {
  readonly source: SourceName;
  readonly documents: readonly D[];
  /** Documents whose `spec` does not fit the schema, with the reason. */
  readonly unreadable?: readonly { readonly name: string; readonly message: string }[];
}

/**
 * Why documents may be missing. `reading`: a source is not read yet, and it may contain a document that no other source
 * has. Otherwise the cluster may not have all its objects yet. Only those in `deleted` are known to be deleted.
 */
export type Unsettled = "reading" | { readonly deleted: ReadonlySet<string> };

/** A fault of a document whose `spec` fits the schema. */
export interface DocumentFault<R extends string = string> {
  readonly name: string;
  readonly source: string;
  /** Path of the field inside `spec`. */
  readonly path: readonly (string | number)[];
  readonly reason: R;
  readonly message: string;
  /** `warning`: the document is in force anyway. Default `error`. */
  readonly severity?: Fault["severity"];
}

/** All objects of one kind in a cluster, parsed. */
export interface ClusterDocuments<S> extends SourceDocuments<Document<S>> {
  readonly source: "cluster";
  readonly unreadable: readonly { readonly name: string; readonly message: string }[];
  /** All objects by name, as they were read. */
  readonly objects: ReadonlyMap<string, DocumentObject>;
}

/**
 * Parses objects again: the CRD in the server may be of another release of Berth. Total. The oldest document comes
 * first: of two that cannot both be in force, the one that is in force stays.
 */
export function readClusterDocuments<S>(
  { spec: schema }: { readonly spec: z.ZodType<S> },
  found: Iterable<DocumentObject>,
): ClusterDocuments<S> {
  const documents: Document<S>[] = [];
  const unreadable: { name: string; message: string }[] = [];
  const objects = new Map<string, DocumentObject>();
  for (const object of [...found].sort(byAge)) {
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
  return { source: "cluster", documents, unreadable, objects };
}

/** By creation, in whole seconds as the API server says it; then by name. */
function byAge({ metadata: one = {} }: DocumentObject, { metadata: other = {} }: DocumentObject): number {
  const keyOf = ({ creationTimestamp = "", name = "" }: ObjectMeta) => `${creationTimestamp} ${name}`;
  return keyOf(one) < keyOf(other) ? -1 : 1;
}

/** Identifies a version of a document: a new object can have the same name. */
export type DocumentVersion = Pick<ObjectMeta, "uid" | "generation">;

/** The result of compiling one version of a document. */
export interface DocumentResult {
  readonly ready: boolean;
  readonly reason: string;
  readonly message: string;
}

/** Faults of documents in files, each with its place. @param located all documents in files. */
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

/** Faults of documents of the cluster, for the terminal. @param kind in lower case. */
export function clusterFaults(kind: string, faults: readonly DocumentFault[]): readonly Fault[] {
  return faultsOf("cluster", faults).map((fault) => {
    const { name, reason, severity = "error" } = fault;
    return { file: `${kind}/${name}`, severity, reason, message: textOf(fault) };
  });
}

function faultsOf(source: SourceName, faults: readonly DocumentFault[]): readonly DocumentFault[] {
  return faults.filter((fault) => fault.source === source);
}

export function textOf({ path, message }: DocumentFault): string {
  return path.length === 0 ? message : `spec.${path.join(".")}: ${message}`;
}
