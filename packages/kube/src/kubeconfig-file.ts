import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { ExecPlugin } from "./exec-credential.ts";

/** A kubeconfig that cannot be used. The message names the file and what to change; it holds no secret. */
export class KubeconfigError extends Error {
  override readonly name = "KubeconfigError";
}

export interface ClusterEntry {
  readonly server?: string;
  readonly "certificate-authority"?: string;
  readonly "certificate-authority-data"?: string;
  readonly "tls-server-name"?: string;
  readonly "insecure-skip-tls-verify"?: boolean;
  readonly "proxy-url"?: string;
  readonly extensions?: readonly { readonly name?: string; readonly extension?: unknown }[];
}

export interface UserEntry {
  readonly token?: string;
  readonly tokenFile?: string;
  readonly username?: string;
  readonly password?: string;
  readonly "client-certificate"?: string;
  readonly "client-certificate-data"?: string;
  readonly "client-key"?: string;
  readonly "client-key-data"?: string;
  readonly exec?: Partial<ExecPlugin>;
  readonly "auth-provider"?: { readonly name?: string };
  readonly as?: string;
  readonly "as-uid"?: string;
  readonly "as-groups"?: readonly string[];
  readonly "as-user-extra"?: Readonly<Record<string, readonly string[]>>;
}

export interface ContextEntry {
  readonly cluster?: string;
  readonly user?: string;
  readonly namespace?: string;
}

/** An entry together with the folder that its relative paths start from. */
export interface Located<T> {
  readonly value: T;
  readonly folder: string;
}

/** The entries of one file, by name. The first of equal names in one file wins. */
export interface KubeconfigFile {
  readonly clusters: ReadonlyMap<string, Located<ClusterEntry>>;
  readonly users: ReadonlyMap<string, Located<UserEntry>>;
  readonly contexts: ReadonlyMap<string, Located<ContextEntry>>;
  readonly currentContext: string;
}

/** @throws KubeconfigError when it cannot be read or is not YAML. `undefined` when there is no such file. */
export async function readKubeconfigFile(path: string): Promise<KubeconfigFile | undefined> {
  const text = await readFile(path, "utf8").catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === "ENOENT") return undefined;
    throw new KubeconfigError(`the kubeconfig ${path} cannot be read: ${cause.code ?? cause.message}`);
  });
  return text === undefined ? undefined : await toKubeconfigFile(text, path, dirname(resolve(path)));
}

/** @param origin names the text in messages. @throws KubeconfigError when it is not YAML. */
export async function toKubeconfigFile(
  text: string,
  origin: string,
  folder: string,
): Promise<KubeconfigFile> {
  const file = await parseYaml(text, origin);
  if (!isRecord(file)) throw new KubeconfigError(`the kubeconfig ${origin} is empty`);
  const entries = <T>(list: unknown, field: string): ReadonlyMap<string, Located<T>> => {
    const byName = new Map<string, Located<T>>();
    for (const entry of Array.isArray(list) ? (list as readonly unknown[]) : []) {
      if (!isRecord(entry)) continue;
      const name = textOf(entry["name"]);
      const value = entry[field];
      if (!byName.has(name)) byName.set(name, { value: (isRecord(value) ? value : {}) as T, folder });
    }
    return byName;
  };
  return {
    clusters: entries(file["clusters"], "cluster"),
    users: entries(file["users"], "user"),
    contexts: entries(file["contexts"], "context"),
    currentContext: textOf(file["current-context"]),
  };
}

/** `<field>-data` (base64) wins over `<field>` (a path relative to its file), as in client-go. */
export async function readPem<T>(entry: Located<T>, field: string): Promise<string | undefined> {
  const values = entry.value as Readonly<Record<string, unknown>>;
  const data = textOf(values[`${field}-data`]);
  if (data !== "") return Buffer.from(data, "base64").toString("utf8");
  const named = textOf(values[field]);
  if (named === "") return undefined;
  const path = resolve(entry.folder, named);
  return readFile(path, "utf8").catch((cause: NodeJS.ErrnoException) => {
    throw new KubeconfigError(`${field} ${path} cannot be read: ${cause.code ?? cause.message}`);
  });
}

/**
 * YAML as kubectl reads it: version 1.1, in which `yes` is true and `0777` is 511. It omits times and base-60 numbers,
 * as go-yaml does. Loaded on first use, because a pod with a service account never needs it.
 */
async function parseYaml(text: string, origin: string): Promise<unknown> {
  const { parse } = await import("./yaml-parser.ts");
  try {
    const document: unknown = parse(text, {
      version: "1.1",
      intAsBigInt: true,
      logLevel: "error",
      customTags: (tags) =>
        tags.filter(
          (tag) =>
            typeof tag === "string" || (tag.tag !== "tag:yaml.org,2002:timestamp" && tag.format !== "TIME"),
        ),
    });
    return toFields(document, "");
  } catch (cause) {
    throw new KubeconfigError(`the kubeconfig ${origin} is not YAML${placeOf(cause)}`);
  }
}

/** The position of the fault. Never the parser's message: it quotes the line, which may hold a token. */
function placeOf(cause: unknown): string {
  if (typeof cause !== "object" || cause === null) return "";
  const { code, linePos } = cause as { code?: string; linePos?: readonly { line: number; col: number }[] };
  const at = linePos?.[0];
  return `${code === undefined ? "" : `: ${code}`}${at === undefined ? "" : ` at line ${at.line}, column ${at.col}`}`;
}

const BOOLEAN_FIELDS: ReadonlySet<string> = new Set(["insecure-skip-tls-verify", "provideClusterInfo"]);

/** Numbers and booleans where text belongs become text (`name: 123`, `user: on`), as sigs.k8s.io/yaml does it. */
function toFields(value: unknown, field: string): unknown {
  if (Array.isArray(value)) return value.map((item) => toFields(item, field));
  if (isRecord(value)) {
    return Object.fromEntries(
      Object.entries(value).map(([key, inner]) => [
        key,
        key === "extension" ? toJson(inner) : toFields(inner, key),
      ]),
    );
  }
  const scalar = typeof value === "bigint" || typeof value === "number" || typeof value === "boolean";
  return scalar && !BOOLEAN_FIELDS.has(field) ? String(value) : value;
}

/** An extension is passed on as JSON, so numbers stay numbers. */
function toJson(value: unknown): unknown {
  if (typeof value === "bigint") return Number(value);
  if (Array.isArray(value)) return value.map(toJson);
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, toJson(inner)]));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
