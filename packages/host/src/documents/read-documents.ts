/** Reads documents from text. Reports all faults at once, each with its place. */

import * as z from "zod";
import { type DocumentKind, isServed, type KindList } from "./document-kind.ts";
import type { Fault } from "./fault.ts";
import { type Position, readYaml, type YamlDocument } from "./yaml.ts";

/** A document whose `spec` fits the schema. The compilation finds other faults. */
export interface Document<S = unknown> {
  readonly name: string;
  readonly annotations: Readonly<Record<string, string>>;
  readonly spec: S;
}

/** A document in a file, with its place. */
export interface LocatedDocument<S = unknown> extends Document<S>, Position {
  readonly kind: DocumentKind<S>;
  /** As the user wrote it. */
  readonly file: string;
  /** The place of this path in `spec`. For a missing value: the start of the nearest map that contains it. */
  readonly positionOf: (path: readonly PropertyKey[]) => Position;
}

export interface ReadDocuments {
  readonly documents: readonly LocatedDocument[];
  readonly faults: readonly Fault[];
}

/** Reasons of faults in configuration files. */
export const configReasons = {
  NotYaml: "NotYaml",
  UnknownKind: "UnknownKind",
  InvalidDocument: "InvalidDocument",
  DuplicateDocument: "DuplicateDocument",
  FileUnreadable: "FileUnreadable",
} as const;

/** Limit for one file: a file that is not YAML has a problem at nearly every character. */
const MAX_PROBLEMS = 20;

/** Reads all documents of one file, also those in lists as `kubectl get -o yaml` prints them. Total. */
export function readDocuments(file: string, text: string, list: KindList): ReadDocuments {
  const { documents: parsed, problems } = readYaml(text);
  const documents: LocatedDocument[] = [];
  const faults: Fault[] = problems.slice(0, MAX_PROBLEMS).map(({ line, column, message }) => ({
    file,
    line,
    column,
    severity: "error",
    reason: configReasons.NotYaml,
    message,
  }));
  const others = new Set(list.kinds.flatMap(({ besides = [] }) => besides));
  const isOurs = (kind: unknown): boolean => list.kinds.some((it) => it.kind === kind);
  for (const yaml of parsed.flatMap((it) => itemsOf(it, list))) {
    if (isMap(yaml.value) && others.has(groupOf(yaml.value["apiVersion"])) && !isOurs(yaml.value["kind"]))
      continue;
    const read = readDocument(yaml, list);
    if ("faults" in read) for (const fault of read.faults) faults.push({ ...fault, file });
    else {
      const positionOf = (path: readonly PropertyKey[]): Position => yaml.positionOf(["spec", ...path]);
      documents.push({ ...read, file, ...yaml.positionOf(["kind"]), positionOf });
    }
  }
  return { documents, faults };
}

/** The items of a list, or the document itself. */
export function itemsOf(yaml: YamlDocument, list: KindList): readonly YamlDocument[] {
  if (!isMap(yaml.value)) return [yaml];
  const { apiVersion, kind, items } = yaml.value;
  const isListOf = list.kinds.some((it) => kind === `${it.kind}List`);
  const isList = apiVersion === "v1" ? kind === "List" : apiVersion === list.apiVersion && isListOf;
  if (!isList || !Array.isArray(items)) return [yaml];
  return items.map((value: unknown, at) => ({
    value,
    positionOf: (path) => yaml.positionOf(["items", at, ...path]),
    positionOfKey: (path, key) => yaml.positionOfKey(["items", at, ...path], key),
  }));
}

/** `kubelet.config.k8s.io`, of `kubelet.config.k8s.io/v1`. */
function groupOf(apiVersion: unknown): string {
  return typeof apiVersion === "string" ? (apiVersion.split("/")[0] ?? "") : "";
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

type Unplaced = Omit<Fault, "file">;
type ReadOne = (Document & Pick<LocatedDocument, "kind">) | { readonly faults: readonly Unplaced[] };

function readDocument(yaml: YamlDocument, list: KindList): ReadOne {
  const { value } = yaml;
  if (!isMap(value)) {
    return {
      faults: [invalid(yaml.positionOf([]), "a document must be a map with apiVersion, kind and metadata")],
    };
  }
  const kind = list.kinds.find((it) => it.kind === value["kind"]);
  if (value["apiVersion"] !== list.apiVersion || kind === undefined)
    return { faults: [unknownKind(yaml, value, list)] };
  const parsed = parseWithoutNulls(documentSchema(kind, list.apiVersion), value);
  if (!parsed.success) return { faults: faultsOfDocument(parsed.error, yaml) };
  const { metadata, spec } = parsed.data;
  return { kind, name: metadata.name, annotations: metadata.annotations ?? {}, spec };
}

const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

/** The fields of `metadata` that Berth reads. It allows and ignores others, such as those that the API server adds. */
interface Metadata {
  readonly name: string;
  readonly annotations?: Document["annotations"] | undefined;
}

const localMetadata: z.ZodType<Metadata> = z.looseObject({ name: z.string().min(1) });

/** The API server's rules for names of cluster-scoped objects (`NameIsDNSSubdomain`). */
const servedMetadata: z.ZodType<Metadata> = z.looseObject({
  name: z.string().max(253).regex(SUBDOMAIN, "must be a DNS subdomain: lower-case letters, digits, - and ."),
  annotations: z.record(z.string(), z.string()).optional(),
});

/** The schema of a whole document. If the API server has the kind, the text may come from `kubectl get -o yaml`. */
export function documentSchema(
  kind: DocumentKind,
  apiVersion: string,
): z.ZodType<{ readonly metadata: Metadata; readonly spec: unknown }> {
  return z.strictObject({
    apiVersion: z.literal(apiVersion),
    kind: z.literal(kind.kind),
    metadata: isServed(kind) ? servedMetadata : localMetadata,
    spec: kind.spec,
    ...(isServed(kind) && { status: z.unknown().optional() }),
  });
}

/** The API server treats a null field as absent (structural schemas, without `nullable`). */
function parseWithoutNulls<T>(schema: z.ZodType<T>, given: unknown): z.ZodSafeParseResult<T> {
  const value = structuredClone(given);
  for (;;) {
    const parsed = schema.safeParse(value);
    if (parsed.success) return parsed;
    const removed = parsed.error.issues.filter(({ path }) => removeNull(value, path));
    if (removed.length === 0) return parsed;
  }
}

function removeNull(value: unknown, path: readonly PropertyKey[]): boolean {
  const last = path.at(-1);
  const around = path.slice(0, -1).reduce<unknown>((it, part) => Reflect.get(Object(it), part), value);
  if (last === undefined || !isMap(around) || around[String(last)] !== null) return false;
  return Reflect.deleteProperty(around, last);
}

function unknownKind(
  yaml: YamlDocument,
  { apiVersion, kind }: Readonly<Record<string, unknown>>,
  list: KindList,
): Unplaced {
  const known = list.kinds.map((it) => it.kind).join(", ");
  const isVersion = apiVersion !== list.apiVersion;
  const found = isVersion ? `apiVersion ${toWord(apiVersion)}` : `kind ${toWord(kind)}`;
  return {
    ...yaml.positionOf([isVersion ? "apiVersion" : "kind"]),
    severity: "error",
    reason: configReasons.UnknownKind,
    message: `${found} is not known; known in ${list.apiVersion}: ${known}`,
  };
}

/** All faults that a schema finds in a document, each with its place. */
export function faultsOfDocument(error: z.ZodError, yaml: YamlDocument): readonly Unplaced[] {
  return error.issues.flatMap((issue) => toFaults(issue, yaml));
}

function toFaults(issue: z.core.$ZodIssue, yaml: YamlDocument): readonly Unplaced[] {
  const where = issue.path.map(String).join(".");
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => {
      const field = where === "" ? key : `${where}.${key}`;
      return invalid(yaml.positionOfKey(issue.path, key), `${field}: there is no such field`);
    });
  }
  return [invalid(yaml.positionOf(issue.path), `${where === "" ? "document" : where}: ${toSentence(issue)}`)];
}

function toSentence(issue: z.core.$ZodIssue): string {
  if (issue.code === "invalid_type" && issue.input === undefined && issue.message.includes("undefined")) {
    return "is required";
  }
  // Berth's own messages keep their first letter: they may begin with the name of an operator.
  if (issue.code === "custom") return issue.message;
  return issue.message.charAt(0).toLowerCase() + issue.message.slice(1);
}

function invalid(at: Position, message: string): Unplaced {
  return { ...at, severity: "error", reason: configReasons.InvalidDocument, message };
}

function toWord(value: unknown): string {
  return value === undefined ? "(missing)" : JSON.stringify(value);
}
