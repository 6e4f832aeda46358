/** Untrusted JSON: limited in size and depth before it is parsed, and read without prototypes. */

/** The limits of a document. */
export interface JsonLimits {
  readonly maxBytes: number;
  /** Nesting of objects and arrays. */
  readonly maxDepth: number;
}

/** Values in one document. An index of a thousand images has 10,000; a parsed one takes 100 bytes. */
export const MAX_ELEMENTS = 40_000;

/** A value, or half a sentence about the fault that quotes none of the input. */
export type JsonDocument =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly why: string };

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Parses UTF-8 text. Never throws. It drops the messages of `JSON.parse`, because they quote the input. */
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

/** An own field of an object; else `undefined`, so `__proto__` and `constructor` have no effect. */
export function fieldOf(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as Readonly<Record<string, unknown>>)[name];
}

/** Whether it is an object with fields, which arrays are not. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Counts brackets and commas outside of strings. For invalid JSON the result is meaningless and harmless. */
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
