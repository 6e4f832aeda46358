const SLOTS = 4096;
/** Longer texts seldom repeat. Bytes. */
const LONGEST = 128;
const ASCII = 128;

/**
 * Texts that many objects have in common, such as names of labels: each is decoded once and takes memory once. Bounded:
 * a slot holds the last text of its hash.
 */
export class SharedTexts {
  readonly #slots: (string | undefined)[] = new Array<string | undefined>(SLOTS).fill(undefined);
  #seconds: number | undefined;
  #time = "";

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

  /** RFC 3339. Times that follow each other are often equal: those of the conditions of one node. */
  time(seconds: number): string {
    if (seconds === this.#seconds) return this.#time;
    this.#seconds = seconds;
    this.#time = new Date(seconds * 1000).toISOString().replace(".000Z", "Z");
    return this.#time;
  }
}

function isText(text: string, bytes: Buffer, start: number, end: number): boolean {
  if (text.length !== end - start) return false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code !== bytes[start + at] || code >= ASCII) return false;
  }
  return true;
}
