/** Configuration documents out of texts: every fault at once, each with its place. */

import type { Fault } from "@berth/host";
import { type Position, readYaml, type YamlDocument } from "@berth/host";
import type * as z from "zod";
import { API_VERSION, type ConfigDocument, documentSchema, isKind, type Kind, kinds } from "./kinds.ts";

/** A document together with where it stands. */
export interface LocatedDocument extends Position {
  readonly file: string;
  readonly document: ConfigDocument;
  /** Where the value at this path inside `spec` stands; of what is missing, where the nearest map around it begins. */
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
  TooManyLabelFolders: "TooManyLabelFolders",
  LabelFolderUnreadable: "LabelFolderUnreadable",
} as const;

/** Of one file: a file that is no YAML has a problem at nearly every character. */
const MAX_PROBLEMS = 20;

/** Reads all documents of one file, and those in its lists as `kubectl get -o yaml` prints them. Total. */
export function readDocuments(file: string, text: string): ReadDocuments {
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
  for (const yaml of parsed.flatMap(itemsOf)) {
    const read = readDocument(yaml);
    if ("document" in read) {
      const { document } = read;
      const positionOf = (path: readonly PropertyKey[]): Position => yaml.positionOf(["spec", ...path]);
      documents.push({ file, document, ...yaml.positionOf(["kind"]), positionOf });
    } else for (const fault of read.faults) faults.push({ ...fault, file });
  }
  return { documents, faults };
}

/** The items of a list, else the document itself. */
export function itemsOf(yaml: YamlDocument): readonly YamlDocument[] {
  if (!isMap(yaml.value)) return [yaml];
  const { apiVersion, kind, items } = yaml.value;
  const isList = apiVersion === "v1" ? kind === "List" : apiVersion === API_VERSION && isListKind(kind);
  if (!isList || !Array.isArray(items)) return [yaml];
  return items.map((value: unknown, at) => ({
    value,
    positionOf: (path) => yaml.positionOf(["items", at, ...path]),
    positionOfKey: (path, key) => yaml.positionOfKey(["items", at, ...path], key),
  }));
}

function isListKind(kind: unknown): boolean {
  return typeof kind === "string" && kind.endsWith("List") && isKind(kind.slice(0, -"List".length));
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

type Unplaced = Omit<Fault, "file">;
type ReadOne = { readonly document: ConfigDocument } | { readonly faults: readonly Unplaced[] };

function readDocument(yaml: YamlDocument): ReadOne {
  const { value } = yaml;
  if (!isMap(value)) {
    return {
      faults: [invalid(yaml.positionOf([]), "a document must be a map with apiVersion, kind and metadata")],
    };
  }
  const { apiVersion, kind } = value;
  if (apiVersion !== API_VERSION || !isKind(kind)) return { faults: [unknownKind(yaml, apiVersion, kind)] };
  return readKind(kind, yaml);
}

function readKind(kind: Kind, yaml: YamlDocument): ReadOne {
  const parsed = parseWithoutNulls(documentSchema(kind), yaml.value);
  if (!parsed.success) return { faults: faultsOfDocument(parsed.error, yaml) };
  const { metadata, spec } = parsed.data;
  const { name, annotations = {} } = metadata;
  return { document: { kind, name, annotations, spec } as ConfigDocument };
}

/** The API server takes a field that is null for one that is not there (structural schemas, without `nullable`). */
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

function unknownKind(yaml: YamlDocument, apiVersion: unknown, kind: unknown): Unplaced {
  const known = Object.keys(kinds).join(", ");
  const isVersion = apiVersion !== API_VERSION;
  const found = isVersion ? `apiVersion ${toWord(apiVersion)}` : `kind ${toWord(kind)}`;
  return {
    ...yaml.positionOf([isVersion ? "apiVersion" : "kind"]),
    severity: "error",
    reason: configReasons.UnknownKind,
    message: `${found} is not known; known in ${API_VERSION}: ${known}`,
  };
}

/** Everything that a schema finds wrong with a document, each with its place. */
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
  // Our own messages begin as they have to: with the name of an operator, for example.
  if (issue.code === "custom") return issue.message;
  return issue.message.charAt(0).toLowerCase() + issue.message.slice(1);
}

function invalid(at: Position, message: string): Unplaced {
  return { ...at, severity: "error", reason: configReasons.InvalidDocument, message };
}

function toWord(value: unknown): string {
  return value === undefined ? "(missing)" : JSON.stringify(value);
}
