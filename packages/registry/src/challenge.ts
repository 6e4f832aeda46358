/** The authentication that a registry asks for, by RFC 9110 section 11.6.1 (`WWW-Authenticate`). */

export interface Challenge {
  /** Lower case: `bearer`, `basic`. */
  readonly scheme: string;
  /** Names in lower case. If a name occurs twice, the first counts. */
  readonly parameters: ReadonlyMap<string, string>;
}

/** No registry needs more. Longer headers are not read, so that no server can keep the parser busy. */
const MAX_LENGTH = 8192;
const MAX_CHALLENGES = 16;

/** `token`, RFC 9110 section 5.6.2. */
const TOKEN = /[!#$%&'*+\-.^_`|~0-9A-Za-z]+/y;
/** `quoted-string`, section 5.6.4. Not anchored at its end, so that it never backtracks. */
const QUOTED = /"((?:[^"\\]|\\.)*)"/sy;
/** Everything else that `token68` allows (section 11.2), and the bare values that some registries send. */
const BARE = /[^\s,"]+/y;
const SPACE = /[ \t]*/y;
const SEPARATOR = /[ \t,]*/y;

/**
 * The challenges in the order given. From a malformed header, only those before the fault: the registry is then refused
 * because no usable challenge exists.
 */
export function parseChallenges(header: string | readonly string[] | undefined): readonly Challenge[] {
  const values = typeof header === "string" ? [header] : (header ?? []);
  return values.flatMap((value) => parseValue(value.slice(0, MAX_LENGTH))).slice(0, MAX_CHALLENGES);
}

interface Cursor {
  readonly text: string;
  at: number;
}

function parseValue(text: string): readonly Challenge[] {
  const cursor: Cursor = { text, at: 0 };
  const challenges: { scheme: string; parameters: Map<string, string> }[] = [];
  for (;;) {
    take(cursor, SEPARATOR);
    const name = take(cursor, TOKEN)?.[0];
    if (name === undefined) return challenges;
    const value = takeValue(cursor);
    const current = challenges.at(-1);
    if (value === undefined) challenges.push({ scheme: name.toLowerCase(), parameters: new Map() });
    else if (current === undefined) return challenges;
    else if (!current.parameters.has(name.toLowerCase())) current.parameters.set(name.toLowerCase(), value);
  }
}

/** The value after a parameter's name; `undefined` when the name was that of a scheme. */
function takeValue(cursor: Cursor): string | undefined {
  const before = cursor.at;
  take(cursor, SPACE);
  if (cursor.text[cursor.at] !== "=") {
    cursor.at = before;
    return undefined;
  }
  cursor.at++;
  take(cursor, SPACE);
  const quoted = take(cursor, QUOTED);
  if (quoted !== undefined) return (quoted[1] ?? "").replaceAll(/\\(.)/gs, "$1");
  return take(cursor, BARE)?.[0] ?? "";
}

function take(cursor: Cursor, pattern: RegExp): RegExpExecArray | undefined {
  pattern.lastIndex = cursor.at;
  const match = pattern.exec(cursor.text);
  if (match === null) return undefined;
  cursor.at = pattern.lastIndex;
  return match;
}
