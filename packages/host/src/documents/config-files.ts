/** Reads configuration files and folders once, and sorts their documents by kind. */
import path from "node:path";
import { type FolderSnapshot, readFolder } from "@berth/runtime";
import type { DocumentKind, KindList } from "./document-kind.ts";
import { type Fault, inOrder } from "./fault.ts";
import { configReasons, type LocatedDocument, readDocuments } from "./read-documents.ts";

/** One configuration path and its contents. */
export interface ConfigSnapshot {
  /** Absolute. */
  readonly path: string;
  /** As the user wrote it. */
  readonly shown: string;
  readonly snapshot: FolderSnapshot;
}

/** Documents of files by kind. */
export interface Documents {
  /** In the order of the files, and of the documents in a file. Names are unique. */
  documentsOf<S>(kind: DocumentKind<S>): readonly LocatedDocument<S>[];
  /** The spec of the first document; `undefined` when there is none. */
  specOf<S>(kind: DocumentKind<S>): S | undefined;
}

/** The kubelet's own entries in a mounted ConfigMap begin with two dots. */
export function isEntryOfKubelet(file: string): boolean {
  return file.split("/").some((part) => part.startsWith(".."));
}

/** Is it a YAML or JSON file, and not an entry of the kubelet in a mounted ConfigMap? */
export function isConfigFile(file: string): boolean {
  return /\.(?:ya?ml|json)$/i.test(file) && !isEntryOfKubelet(file);
}

/** A file that the user names is read whatever its name. A folder is filtered. */
export function includeFor(given: string): (file: string) => boolean {
  return (file) => file === path.basename(given) || isConfigFile(file);
}

/** Reads every configuration path once. */
export function readConfigFiles(
  given: readonly string[],
  folder: string,
): Promise<readonly ConfigSnapshot[]> {
  return Promise.all(
    given.map(async (shown) => {
      const absolute = path.resolve(folder, shown);
      const snapshot = await readFolder(absolute, { include: includeFor(absolute) });
      return { path: absolute, shown, snapshot };
    }),
  );
}

/** Builds a document from a flag. It has no place in a file. */
export function documentOfFlag<S>(kind: DocumentKind<S>, spec: S): LocatedDocument<S> {
  const place = { line: 0, column: 0 };
  return { kind, name: "", annotations: {}, spec, file: "", ...place, positionOf: () => place };
}

/**
 * All documents in files. Total: reports each file with a fault, and uses the others.
 * @param ofFlags documents that come before those in files.
 */
export function toDocuments(
  files: readonly ConfigSnapshot[],
  list: KindList,
  ofFlags: readonly LocatedDocument[] = [],
): { readonly documents: Documents; readonly faults: readonly Fault[] } {
  const { documents: ofFiles, faults } = readAll(files, list);
  const byKind = new Map<unknown, readonly LocatedDocument[]>();
  for (const [kind, all] of Map.groupBy([...ofFlags, ...ofFiles], (document) => document.kind)) {
    const names = new Map<string, LocatedDocument>();
    for (const document of all) {
      const same = names.get(document.name);
      if (same === undefined) names.set(document.name, document);
      else {
        const message = `${kind.kind} ${document.name} is already in ${same.file}:${same.line}`;
        faults.push(faultOf(document, { reason: configReasons.DuplicateDocument, message }));
      }
    }
    if (kind.tooMany === undefined) byKind.set(kind, [...names.values()]);
    else {
      const [first, ...others] = all as [LocatedDocument, ...LocatedDocument[]];
      const { reason, message } = kind.tooMany(first);
      for (const other of others)
        faults.push(faultOf(other, { reason, message: `${other.name}: ${message}` }));
      byKind.set(kind, [first]);
    }
  }
  const documents: Documents = {
    documentsOf: <S>(kind: DocumentKind<S>) => (byKind.get(kind) ?? []) as readonly LocatedDocument<S>[],
    specOf: (kind) => documents.documentsOf(kind)[0]?.spec,
  };
  return { documents, faults: faults.sort(inOrder) };
}

function readAll(files: readonly ConfigSnapshot[], list: KindList) {
  const faults: Fault[] = [];
  const documents: LocatedDocument[] = [];
  for (const { shown, path: root, snapshot } of files) {
    for (const { path: file, problem: message } of snapshot.problems) {
      const reason = configReasons.FileUnreadable;
      faults.push({ file: shownPath(shown, root, file), severity: "error", reason, message });
    }
    for (const { path: relative, text } of snapshot.files.values()) {
      if (text === undefined) continue;
      const file = shownPath(shown, root, relative);
      const absolute = path.basename(root) === relative ? root : path.join(root, relative);
      const read = readDocuments(file, text, list);
      faults.push(...read.faults);
      for (const { kind, spec, ...document } of read.documents) {
        const placed = kind.placed?.(spec, { folder: path.dirname(absolute), file }) ?? spec;
        documents.push({ ...document, kind, spec: placed });
      }
    }
  }
  return { documents, faults };
}

/** The path as a user in the same folder would write it. */
function shownPath(given: string, root: string, file: string): string {
  return file === "" || file === path.basename(root) ? given : path.join(given, file);
}

function faultOf(
  { file, line, column }: LocatedDocument,
  said: { readonly reason: string; readonly message: string },
): Fault {
  return { file, line, column, severity: "error", ...said };
}
