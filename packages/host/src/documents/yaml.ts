/**
 * Reads YAML as kubectl does. The YAML library of Kubernetes reads YAML 1.1: `yes` and `on` are true, `0777` is octal.
 * It has no timestamps and base-60 numbers, but reads the `0o777` of YAML 1.2.
 */
import { type Document, isMap, isScalar, LineCounter, type Node, parseAllDocuments, type Tags } from "yaml";

/** A place in a text. Lines and columns start at 1; columns count UTF-16 units. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** One document of a file, as plain data, with the places of its values. */
export interface YamlDocument {
  readonly value: unknown;
  /** The place of the value at this path. For a missing value: the start of the nearest map that contains it. */
  positionOf(path: readonly PropertyKey[]): Position;
  /** The place of the key itself. */
  positionOfKey(path: readonly PropertyKey[], key: string): Position;
}

export interface YamlProblem extends Position {
  readonly message: string;
}

export interface YamlFile {
  /** The documents without errors. Like kubectl, it skips empty documents. */
  readonly documents: readonly YamlDocument[];
  readonly problems: readonly YamlProblem[];
}

const OCTAL_1_2 = {
  tag: "tag:yaml.org,2002:int",
  default: true,
  test: /^[-+]?0o[0-7]+$/,
  resolve: (text: string): number => {
    const digits = Number.parseInt(text.replace(/^[-+]?0o/, ""), 8);
    return text.startsWith("-") ? -digits : digits;
  },
} as const;

function asKubectl(tags: Tags): Tags {
  const kept = tags.filter(
    (tag) => typeof tag === "string" || (tag.tag !== "tag:yaml.org,2002:timestamp" && tag.format !== "TIME"),
  );
  return [OCTAL_1_2, ...kept];
}

/** Total: returns the documents that it could read, and all problems. */
export function readYaml(text: string): YamlFile {
  const lines = new LineCounter();
  const documents: YamlDocument[] = [];
  const problems: YamlProblem[] = [];
  const parsed = parseAllDocuments(text, {
    version: "1.1",
    customTags: asKubectl,
    lineCounter: lines,
    prettyErrors: false,
    logLevel: "error",
  });
  for (const document of Array.isArray(parsed) ? parsed : []) {
    for (const { pos, message } of document.errors) problems.push({ ...place(lines, pos[0]), message });
    if (document.errors.length > 0) continue;
    try {
      const value: unknown = document.toJS();
      if (value !== null && value !== undefined) documents.push(toYamlDocument(document, value, lines));
    } catch (error) {
      // Too many aliases: a text of a few hundred bytes can expand to gigabytes.
      const message = error instanceof Error ? error.message : String(error);
      problems.push({ ...place(lines, document.range[0]), message });
    }
  }
  return { documents, problems };
}

function toYamlDocument(document: Document, value: unknown, lines: LineCounter): YamlDocument {
  const start = (document.contents?.range ?? document.range ?? [0])[0];
  return {
    value,
    positionOf(path) {
      for (let length = path.length; length >= 0; length--) {
        const node = document.getIn(path.slice(0, length), true) as Node | undefined;
        const at = node?.range?.[0];
        if (at !== undefined) return place(lines, at);
      }
      return place(lines, start);
    },
    positionOfKey(path, key) {
      const map: unknown = path.length === 0 ? document.contents : document.getIn(path, true);
      const pair = isMap(map)
        ? map.items.find((item) => isScalar(item.key) && String(item.key.value) === key)
        : undefined;
      const at = isScalar(pair?.key) ? pair.key.range?.[0] : undefined;
      return at === undefined ? this.positionOf(path) : place(lines, at);
    },
  };
}

function place(lines: LineCounter, offset: number): Position {
  const { line, col } = lines.linePos(offset);
  return { line: Math.max(1, line), column: Math.max(1, col) };
}
