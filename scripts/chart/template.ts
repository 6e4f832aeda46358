/** Prints a tree of `symbolic.ts` as a template of Helm. */
import type { Entry, Guard, Node } from "./symbolic.ts";

/** What stands for a value in the tree is a token: a text that occurs nowhere else. */
export interface Words {
  /** The condition of a switch, as an expression. */
  readonly conditionOf: (by: string) => string;
  /** By token, an expression. A text that is the token and nothing else becomes its value as JSON. */
  readonly values: ReadonlyMap<string, string>;
  /** Entries of the list or map at `key` that have the token are repeated. `item`: the whole item is this value. */
  readonly loops: readonly Loop[];
  /** Replaces in a text what has been made of lists of tokens. */
  readonly replaceLists: (text: string) => string;
}

export interface Loop {
  readonly token: string;
  readonly key: string;
  /** The arguments of `range`. */
  readonly range: string;
  readonly item?: string;
}

/** A text that YAML 1.1 reads as itself without quotes. */
const PLAIN = /^(?!(?:y|n|yes|no|on|off|true|false|null)$)[a-zA-Z/][\w./=-]*$/i;
const END = "{{- end }}";

export function printTemplate(objects: readonly Entry[], words: Words): string {
  const printed = objects.flatMap(({ guard, node }) => {
    const lines = ["---", ...linesOf(node, "", words)];
    return guard === true ? lines : [`{{- if ${expressionOf(guard, words)} }}`, ...lines, END];
  });
  return `${printed.join("\n")}\n`;
}

function linesOf(node: Node, key: string, words: Words): readonly string[] {
  if ("scalar" in node) return scalarLines(node.scalar, words);
  if ("by" in node) return choiceLines(node, key, words);
  const entries = "list" in node ? node.list : node.map;
  if (entries.length === 0) return ["list" in node ? "[]" : "{}"];
  const lines: string[] = [];
  for (const [at, entry] of entries.entries()) {
    const [before, after] = [entries[at - 1], entries[at + 1]].map((it) => JSON.stringify(it?.guard));
    const guard = JSON.stringify(entry.guard);
    if (entry.guard !== true && guard !== before) lines.push(`{{- if ${expressionOf(entry.guard, words)} }}`);
    lines.push(...looped(entry, { key, isItem: "list" in node }, words));
    if (entry.guard !== true && guard !== after) lines.push(END);
  }
  return lines;
}

function looped(
  { key, node }: Entry,
  of: { readonly key: string; readonly isItem: boolean },
  words: Words,
): readonly string[] {
  const text = JSON.stringify([key, node]);
  const loop = words.loops.find((it) => it.key === of.key && text.includes(it.token));
  const shown = loop?.item === undefined ? linesOf(node, key, words) : [`{{ toJson ${loop.item} }}`];
  const lines = of.isItem ? itemLines(shown) : entryLines(key, node, shown, words);
  return loop === undefined ? lines : [`{{- range ${loop.range} }}`, ...lines, END];
}

function itemLines([first = "", ...rest]: readonly string[]): readonly string[] {
  // A directive takes a line of its own.
  if (first.startsWith("{{-")) return ["-", ...indented([first, ...rest])];
  return [`- ${first}`, ...indented(rest)];
}

function entryLines(key: string, node: Node, shown: readonly string[], words: Words): readonly string[] {
  const expression = words.values.get(key);
  const name =
    expression === undefined ? (PLAIN.test(key) ? key : JSON.stringify(key)) : `{{ toJson ${expression} }}`;
  const [first = "", ...rest] = shown;
  const isInline = "scalar" in node || first === "[]" || first === "{}" || !/^\{\{-|^[-\w"]/.test(first);
  return isInline ? [`${name}: ${first}`, ...rest] : [`${name}:`, ...indented(shown)];
}

function scalarLines(scalar: string | number | boolean | null, words: Words): readonly string[] {
  const value = words.values.get(String(scalar));
  if (value !== undefined) return [`{{ toJson ${value} }}`];
  if (typeof scalar !== "string") return [JSON.stringify(scalar)];
  const text = textOf(scalar, words);
  if (text === scalar) return [PLAIN.test(text) ? text : JSON.stringify(text)];
  return withExpressions(text);
}

/** Expressions print without escapes, so the text around them must not need any. */
function withExpressions(text: string): readonly string[] {
  const around = text.replaceAll(/\{\{.*?\}\}/g, "");
  return /^[\w./:=*-]*$/.test(around) ? [`"${text}"`] : ["|-", ...indented([text])];
}

/** A text, or two, is chosen in its line; anything else by lines. */
function choiceLines(
  node: Extract<Node, { readonly by: string }>,
  key: string,
  words: Words,
): readonly string[] {
  const text = inlineOf(node, words);
  if (text !== undefined) return withExpressions(text);
  const { by, on, off } = node;
  return [
    `{{- if ${words.conditionOf(by)} }}`,
    ...linesOf(on, key, words),
    "{{- else }}",
    ...linesOf(off, key, words),
    END,
  ];
}

function inlineOf(node: Node, words: Words): string | undefined {
  if ("scalar" in node) return typeof node.scalar === "string" ? textOf(node.scalar, words) : undefined;
  if (!("by" in node)) return undefined;
  const [on, off] = [inlineOf(node.on, words), inlineOf(node.off, words)];
  if (on === undefined || off === undefined) return undefined;
  return `{{ if ${words.conditionOf(node.by)} }}${on}{{ else }}${off}{{ end }}`;
}

function textOf(text: string, { values, replaceLists }: Words): string {
  let shown = replaceLists(text.replaceAll("{{", '{{ "{{" }}'));
  for (const [token, expression] of values) shown = shown.replaceAll(token, `{{ ${expression} }}`);
  return shown;
}

function expressionOf(guard: Guard, words: Words): string {
  if (typeof guard === "boolean") return String(guard);
  const { on, off } = guard;
  const by = words.conditionOf(guard.by);
  const [then, otherwise] = [on, off].map((it) => `(${expressionOf(it, words)})`);
  if (on === true) return off === false ? by : `or (${by}) ${otherwise}`;
  if (off === false) return `and (${by}) ${then}`;
  if (on === false) return off === true ? `not (${by})` : `and (not (${by})) ${otherwise}`;
  return off === true ? `or (not (${by})) ${then}` : `ternary ${then} ${otherwise} (not (not (${by})))`;
}

function indented(lines: readonly string[]): readonly string[] {
  return lines.map((line) => `  ${line}`);
}
