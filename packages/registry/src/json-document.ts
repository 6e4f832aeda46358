/** JSON from strangers: limited in size and depth before it is parsed, and read without prototypes. */

/** How much is accepted. */
export interface JsonLimits {
  readonly maxBytes: number;
  /** Of objects and arrays in each other. */
  readonly maxDepth: number;
}

/** Values of objects and arrays in one document. An index of a thousand images has 10,000; a parsed one takes 100 bytes. */
export const MAX_ELEMENTS = 40_000;

/** A value, or half a sentence that says what is wrong, with nothing of what was read. */
export type JsonDocument =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly why: string };

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Parses UTF-8 text. Never throws. The messages of `JSON.parse` quote what they stumbled over, so they are not used. */
export function parseJson(bytes: Uint8Array, { maxBytes, maxDepth }: JsonLimits): JsonDocument {
  if (bytes.byteLength > maxBytes) return { ok: false, why: `larger than ${maxBytes} bytes` };
  const { depth, elements } = measure(bytes);
  if (depth > maxDepth) return { ok: false, why: `nested deeper than ${maxDepth} levels` };
  if (elements > MAX_ELEMENTS) return { ok: false, why: `of more than ${MAX_ELEMENTS} elements` };
  try {
    return { ok: true, value: JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) };
  } catch {
    return { ok: false, why: "no JSON" };
  }
}

/** A field of an object's own; `undefined` of anything else, so that `__proto__` and `constructor` are no surprise. */
export function fieldOf(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as Readonly<Record<string, unknown>>)[name];
}

/** Whether it is an object with fields, which arrays are not. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Counts brackets and commas outside of strings. Of text that is no JSON the answer means nothing, and does no harm. */
function measure(bytes: Uint8Array): { readonly depth: number; readonly elements: number } {
  let depth = 0;
  let deepest = 0;
  let elements = 0;
  let inString = false;
  for (let index = 0; index < bytes.length; index += 1) {
    const byte = bytes[index];
    if (inString) {
      if (byte === BACKSLASH) index += 1;
      else if (byte === QUOTE) inString = false;
    } else if (byte === QUOTE) inString = true;
    else if (byte === 0x7b || byte === 0x5b) {
      depth += 1;
      elements += 1;
      if (depth > deepest) deepest = depth;
    } else if (byte === 0x7d || byte === 0x5d) depth -= 1;
    else if (byte === 0x2c) elements += 1;
  }
  return { depth: deepest, elements };
}
