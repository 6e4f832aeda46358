/**
 * The part of kubectl's JSONPath that scripts use: `{.items[*].name}`, `['a.b/c']`, `[0]`, `[-1]`, `[?(@.a=="b")]`,
 * `{range PATH}…{end}`, `{"\n"}`, and text between. Not supported: other filters, slices, unions and `..`.
 */

/** Prints the parts of a value that a template names. */
export type Query = (value: unknown) => string;

type Step = (value: unknown) => readonly unknown[];

/** @throws SyntaxError: the message says which part of the template is wrong. */
export function parseJsonPath(template: string): Query {
  const parts = template.match(/\{[^{}]*\}|[^{}]+/g) ?? [];
  if (!template.includes("{") || parts.join("") !== template) {
    throw new SyntaxError(`${template}: expected paths in braces, such as {.items[*].name}`);
  }
  const { query, rest } = sequence(parts);
  if (rest.length > 0) throw new SyntaxError("{end} without {range}");
  return query;
}

/** Reads parts until the end of its `range`. */
function sequence(parts: readonly string[], inRange = false): { query: Query; rest: readonly string[] } {
  const queries: Query[] = [];
  let rest = parts;
  for (let [part] = rest; part !== undefined; [part] = rest) {
    rest = rest.slice(1);
    const inside = part.startsWith("{") ? part.slice(1, -1).trim() : undefined;
    if (inside === "end" && inRange) return { query: joined(queries), rest };
    if (inside === "end") throw new SyntaxError("{end} without {range}");
    if (inside?.startsWith("range ")) {
      const each = path(inside.slice("range ".length).trim());
      const body = sequence(rest, true);
      ({ rest } = body);
      queries.push((value) => each(value).map(body.query).join(""));
    } else queries.push(inside === undefined ? () => part : one(inside));
  }
  if (inRange) throw new SyntaxError("{range} without {end}");
  return { query: joined(queries), rest };
}

function joined(queries: readonly Query[]): Query {
  return (value) => queries.map((query) => query(value)).join("");
}

function one(inside: string): Query {
  if (/^"(?:[^"\\]|\\.)*"$/.test(inside)) return () => String(JSON.parse(inside));
  const step = path(inside);
  return (value) => step(value).map(shown).join(" ");
}

/** As kubectl prints it: objects as JSON, all else as text. */
function shown(value: unknown): string {
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
}

const STEP =
  /^(?:(?:\.\*|\.?\[\*\])|\.?\[(-?\d+)\]|\.?\['([^']+)'\]|\[\?\(@(.+?)==["']?([^"']*?)["']?\)\]|\.((?:[^.[\]'*\s\\]|\\.)+))/;

function path(text: string): Step {
  if (/^[@$.]$/.test(text)) return (value) => [value];
  const steps: Step[] = [];
  let rest = text.replace(/^[@$]/, "");
  while (rest !== "") {
    const found = STEP.exec(rest);
    if (found === null) throw new SyntaxError(`${text}: ${rest} is not supported`);
    rest = rest.slice(found[0].length);
    const [, index, quoted, asked, equal, field] = found;
    if (index !== undefined) steps.push((it) => (Array.isArray(it) ? known(it.at(Number(index))) : []));
    else if (quoted !== undefined) steps.push(fieldOf(quoted));
    else if (asked !== undefined) steps.push(where(path(asked), equal));
    else if (field !== undefined) steps.push(fieldOf(field.replaceAll(/\\(.)/g, "$1")));
    else steps.push((it) => Object.values(Object(it)));
  }
  return (value) =>
    steps.reduce<readonly unknown[]>((found, step) => found.flatMap((it) => step(it)), [value]);
}

function fieldOf(name: string): Step {
  return (it) => known(Object.hasOwn(Object(it), name) ? Reflect.get(Object(it), name) : undefined);
}

function where(asked: Step, equal: string | undefined): Step {
  return (it) =>
    Object.values(Object(it)).filter((item) => asked(item).some((found) => shown(found) === equal));
}

/** kubectl prints nothing for a field that is not there. */
function known(value: unknown): readonly unknown[] {
  return value === undefined ? [] : [value];
}
