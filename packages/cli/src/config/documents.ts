/** Configuration documents out of texts: every fault at once, each with its place. */
import * as z from "zod";
import type { Fault } from "./fault.ts";
import { API_VERSION, type ConfigDocument, isKind, kinds } from "./kinds.ts";
import { type Position, readYaml, type YamlDocument } from "./yaml.ts";

/** A document together with where it stands. */
export interface LocatedDocument extends Position {
  readonly file: string;
  readonly document: ConfigDocument;
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

const metadata = z.looseObject({ name: z.string().min(1) });

/** Reads all documents of one file. Total. */
export function readDocuments(file: string, text: string): ReadDocuments {
  const { documents: parsed, problems } = readYaml(text);
  const documents: LocatedDocument[] = [];
  const faults: Fault[] = problems.map(({ line, column, message }) => ({
    file,
    line,
    column,
    severity: "error",
    reason: configReasons.NotYaml,
    message,
  }));
  for (const yaml of parsed) {
    const read = readDocument(yaml);
    if ("document" in read) documents.push({ file, document: read.document, ...yaml.positionOf(["kind"]) });
    else for (const fault of read.faults) faults.push({ ...fault, file });
  }
  return { documents, faults };
}

type Unplaced = Omit<Fault, "file">;
type ReadOne = { readonly document: ConfigDocument } | { readonly faults: readonly Unplaced[] };

function readDocument(yaml: YamlDocument): ReadOne {
  const { value } = yaml;
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return {
      faults: [invalid(yaml.positionOf([]), "a document must be a map with apiVersion, kind and metadata")],
    };
  }
  const { apiVersion, kind } = value as Readonly<Record<string, unknown>>;
  if (apiVersion !== API_VERSION || !isKind(kind)) return { faults: [unknownKind(yaml, apiVersion, kind)] };
  const schema = z.strictObject({
    apiVersion: z.literal(API_VERSION),
    kind: z.literal(kind),
    metadata,
    spec: kinds[kind],
  });
  const parsed = schema.safeParse(value);
  if (!parsed.success) return { faults: parsed.error.issues.flatMap((issue) => toFaults(issue, yaml)) };
  const { metadata: named, spec } = parsed.data;
  return { document: { kind, name: named.name, spec } };
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
  return issue.message.charAt(0).toLowerCase() + issue.message.slice(1);
}

function invalid(at: Position, message: string): Unplaced {
  return { ...at, severity: "error", reason: configReasons.InvalidDocument, message };
}

function toWord(value: unknown): string {
  return value === undefined ? "(missing)" : JSON.stringify(value);
}
