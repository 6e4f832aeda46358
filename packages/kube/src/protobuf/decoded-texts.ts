const SLOTS = 4096;
/** Longer texts seldom repeat. Bytes. */
const LONGEST = 128;
const ASCII = 128;

/**
 * Texts that many objects have in common, such as names of labels: each is decoded once and takes memory once. Bounded:
 * a slot holds the last text of its hash.
 */
export class DecodedTexts {
  readonly #slots: (string | undefined)[] = Array.from({ length: SLOTS });
  #last: { readonly seconds: number; readonly text: string | undefined } | undefined;

  /** The UTF-8 text from `start` to `end`. */
  at(bytes: Buffer, start: number, end: number): string {
    if (end - start > LONGEST) return bytes.toString("utf8", start, end);
    let hash = 0;
    for (let at = start; at < end; at++) hash = (Math.imul(hash, 31) + (bytes[at] ?? 0)) | 0;
    const slot = (hash ^ (hash >>> 12)) & (SLOTS - 1);
    const known = this.#slots[slot];
    if (known !== undefined && isText(known, bytes, start, end)) return known;
    const text = bytes.toString("utf8", start, end);
    this.#slots[slot] = text;
    return text;
  }

  /**
   * RFC 3339, as Go writes it; `undefined` for a time that JavaScript does not know, such as the year 300000. Times that
   * follow each other are often equal: those of the conditions of one node.
   */
  time(seconds: number): string | undefined {
    if (this.#last?.seconds !== seconds) this.#last = { seconds, text: textOf(seconds) };
    return this.#last.text;
  }
}

function textOf(seconds: number): string | undefined {
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return undefined;
  // JavaScript writes years beyond 9999 with a sign and six digits.
  return date.toISOString().replace(".000Z", "Z").replace(/^\+0*/, "");
}

function isText(text: string, bytes: Buffer, start: number, end: number): boolean {
  if (text.length !== end - start) return false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code !== bytes[start + at] || code >= ASCII) return false;
  }
  return true;
}
