/** Makes any value fit for a log line: plain data, bounded, without credentials. */

/** A field is a credential when its name ends like this, whatever the case and the dashes: `access_token`, `X-Api-Key`. */
const CREDENTIAL_NAME =
  /(authorization|token|passw(or)?d|passphrase|secret|cookie|apikey|privatekey|clientkeydata|keydata|credentials?)$/;
/**
 * An authorization header's value, a bearer token, or base64 JSON (the start of a web token), in any text. The pattern
 * requires no dot after the base64: the search for one took quadratic time.
 */
const CREDENTIAL_TEXT =
  /\bauthorization["']?\s*[:=]\s*["']?\w+\s+[^\s"',]+|\bbearer\s+[\w.~+/=-]{20,}|\beyJ[\w-]{8,}(?:\.[\w-]*)*/gi;

export const REDACTED = "[redacted]";

const MAX_DEPTH = 6;
const MAX_ENTRIES = 100;
const MAX_TEXT = 8192;

/** Replaces likely credentials, and cuts text longer than 8192 characters. */
export function redactText(text: string): string {
  const cut = text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;
  return cut.replace(CREDENTIAL_TEXT, REDACTED);
}

/**
 * A copy that `JSON.stringify` accepts. Errors become their name, message, stack and cause; maps and sets become plain
 * objects. Values deeper than 6 levels or beyond 100 entries are omitted and marked. A getter may throw without harm.
 * `[redacted]` replaces credentials, detected by field name and by format.
 */
export function redactFields(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return redactEntries(Object.entries(fields), 0);
}

function redactEntries(
  entries: Iterable<readonly [unknown, unknown]>,
  depth: number,
): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  let left = MAX_ENTRIES;
  for (const [key, value] of entries) {
    if (left-- === 0) {
      result["…"] = "more entries left out";
      break;
    }
    const name = typeof key === "string" ? redactText(key) : String(redactValue(key, MAX_DEPTH));
    // Otherwise `__proto__` as an own key would set the prototype.
    Object.defineProperty(result, name, {
      value: isCredential(name, value) ? REDACTED : redactValue(value, depth + 1),
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
  return result;
}

/** Numbers and flags are no credentials: `maxToken: 5`, `hasSecret: true`. */
function isCredential(name: string, value: unknown): boolean {
  if (value === undefined || value === null || typeof value === "number" || typeof value === "boolean")
    return false;
  return CREDENTIAL_NAME.test(name.toLowerCase().replace(/[^a-z]/g, ""));
}

function redactValue(value: unknown, depth: number): unknown {
  if (typeof value === "string") return redactText(value);
  if (typeof value === "bigint" || typeof value === "symbol") return String(value);
  if (typeof value === "function") return `[function ${value.name}]`;
  if (typeof value !== "object" || value === null) return value;
  if (depth > MAX_DEPTH) return "[deeper levels left out]";
  try {
    return redactObject(value, depth);
  } catch (error) {
    return `[unreadable: ${error instanceof Error ? error.message : "not an error"}]`;
  }
}

function redactObject(value: object, depth: number): unknown {
  if (value instanceof Error) return redactError(value, depth);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "[invalid date]" : value.toISOString();
  if (value instanceof URL) return redactText(value.href);
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `[${value.byteLength} bytes]`;
  if (Array.isArray(value) || value instanceof Set) {
    const items = [...value].slice(0, MAX_ENTRIES).map((item) => redactValue(item, depth + 1));
    const count = Array.isArray(value) ? value.length : value.size;
    return count > MAX_ENTRIES ? [...items, `… ${count - MAX_ENTRIES} more`] : items;
  }
  return redactEntries(value instanceof Map ? value : Object.entries(value), depth);
}

function redactError(error: Error, depth: number): Record<string, unknown> {
  const { name, message, stack, cause } = error;
  return redactEntries(
    [
      ["name", name],
      ["message", message],
      ...(stack === undefined ? [] : [["stack", stack] as const]),
      ...(cause === undefined ? [] : [["cause", cause] as const]),
    ],
    depth,
  );
}
