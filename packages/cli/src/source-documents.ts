/** What documents of all kinds have in common, be they of files or of the cluster: being read, being judged, faults. */

import type { Fault } from "@berth/host";
import type { KubeObject, ObjectMeta } from "@berth/kube";
import type { Reason } from "@berth/placement";
import type * as z from "zod";
import type { LocatedSpec } from "./config/settings.ts";

/** Which version of a document: the same name may come to stand for another object. */
export type DocumentVersion = Pick<ObjectMeta, "uid" | "generation">;

/** A document as an object of a cluster. Its spec may be of another release. */
export type DocumentObject = KubeObject & { readonly spec?: unknown };

/** The objects of one kind in a cluster, read. */
export interface ClusterDocuments<S> {
  readonly source: "cluster";
  /** By name. */
  readonly documents: readonly ClusterDocument<S>[];
  readonly unreadable: readonly { readonly name: string; readonly message: string }[];
  /** By name: which version of its spec was read. */
  readonly versions: ReadonlyMap<string, DocumentVersion>;
}

export interface ClusterDocument<S> {
  readonly name: string;
  readonly annotations: Readonly<Record<string, string>>;
  readonly spec: S;
}

/** The server has its schema, ours may be of another release: nothing is taken on trust. Total. */
export function readClusterDocuments<S>(
  objects: Iterable<DocumentObject>,
  schema: z.ZodType<S>,
): ClusterDocuments<S> {
  const documents: ClusterDocument<S>[] = [];
  const unreadable: { name: string; message: string }[] = [];
  const versions = new Map<string, DocumentVersion>();
  for (const { metadata, spec } of objects) {
    const { name = "", annotations = {} } = metadata ?? {};
    versions.set(name, metadata ?? {});
    const parsed = schema.safeParse(spec);
    if (parsed.success) documents.push({ name, annotations, spec: parsed.data });
    else {
      const [issue] = parsed.error.issues;
      const where = ["spec", ...(issue?.path ?? [])].map(String).join(".");
      unreadable.push({ name, message: `${where}: ${issue?.message ?? "is not valid"}` });
    }
  }
  return {
    source: "cluster",
    documents: documents.sort((a, b) => (a.name < b.name ? -1 : 1)),
    unreadable,
    versions,
  };
}

/** What is wrong with one document beyond its schema. */
export interface DocumentFault {
  /** Name of the document. */
  readonly name: string;
  readonly source: string;
  /** Path of the field inside `spec`. */
  readonly path: readonly (string | number)[];
  readonly reason: Reason;
  readonly message: string;
}

/** What became of one version of a document. */
export interface DocumentJudgement {
  readonly ready: boolean;
  readonly reason: Reason;
  readonly message: string;
}

/** `undefined` until this version was taken over. `inForce` is what is said of one without a fault. */
export function judge(
  { name, uid, generation }: DocumentVersion & { readonly name: string },
  read: Pick<ClusterDocuments<unknown>, "versions"> | undefined,
  faults: readonly DocumentFault[],
  inForce: () => DocumentJudgement,
): DocumentJudgement | undefined {
  const version = read?.versions.get(name);
  if (version === undefined || version.uid !== uid || version.generation !== generation) return undefined;
  const fault = faults.find((it) => it.source === "cluster" && it.name === name);
  return fault === undefined ? inForce() : { ready: false, reason: fault.reason, message: messageOf(fault) };
}

/** What is wrong with the documents of files, where the file says it. */
export function fileFaults(
  located: readonly LocatedSpec<unknown>[],
  faults: readonly DocumentFault[],
): readonly Fault[] {
  return faults
    .filter(({ source }) => source === "config")
    .map((fault): Fault => {
      const { name, path, reason } = fault;
      const found = located.find((it) => it.name === name);
      const told: Fault = {
        file: found?.file ?? name,
        severity: "error",
        reason,
        message: `${name}: ${messageOf(fault)}`,
      };
      return found === undefined ? told : Object.assign(told, found.positionOf(path));
    });
}

/** The same of the cluster, for a command that shows faults on the terminal. @param kind in lower case. */
export function clusterFaults(kind: string, faults: readonly DocumentFault[]): readonly Fault[] {
  return faults
    .filter(({ source }) => source === "cluster")
    .map((fault) => ({
      file: `${kind}/${fault.name}`,
      severity: "error",
      reason: fault.reason,
      message: messageOf(fault),
    }));
}

function messageOf({ path, message }: DocumentFault): string {
  return path.length === 0 ? message : `spec.${path.join(".")}: ${message}`;
}
