import type { BodyReader } from "./body-reader.ts";

/** The text before the items of a list, as API servers write it: in one line, without blanks. */
const BEFORE_ITEMS = '"items":[';
/** The start of an item up to its first field name. Every item of a list starts the same way. */
const BEGINNING = /^\{"[^"\\]{1,60}":/;
const LONGEST_BEGINNING = 64;
/** The longest text before the items: a page's continue token has a few hundred bytes. */
const LONGEST_HEAD = 64 * 1024;

/**
 * Reads the answer to a list and decodes each item when its last byte has arrived. So memory never holds a whole page
 * of large objects, and unused parts of an item are garbage before the next one arrives.
 *
 * The start of an item separates items. No string can contain it, because quotes in strings are escaped. A list inside
 * an item can; the piece cut off there is not JSON. From there on the answer stays in one piece, as for a server that
 * writes lists in another format.
 */
export class ListReader<T> implements BodyReader {
  /** Items that were split off, in order. The result of `end` holds the others. */
  readonly items: T[] = [];
  readonly #decode: (item: Buffer) => T | undefined;
  #head: Buffer | undefined;
  #separator = "";
  /** Bytes not decoded yet; one piece while items are split off. */
  #pieces: Buffer[] = [];
  #isSplit = true;

  /** @param decode returns `undefined` for invalid JSON. */
  constructor(decode: (item: Buffer) => T | undefined) {
    this.#decode = decode;
  }

  add(chunk: Buffer): void {
    this.#pieces.push(chunk);
    if (!this.#isSplit) return;
    const bytes = Buffer.concat(this.#pieces);
    this.#pieces = [bytes];
    if (this.#head === undefined) this.#findItems(bytes);
    else this.#split(bytes, Math.max(0, bytes.length - chunk.length - this.#separator.length));
  }

  /** The list with the items that were not split off. */
  end(): Buffer {
    return Buffer.concat(this.#head === undefined ? this.#pieces : [this.#head, ...this.#pieces]);
  }

  #findItems(bytes: Buffer): void {
    const found = bytes.indexOf(BEFORE_ITEMS);
    const at = found + BEFORE_ITEMS.length;
    const [beginning] = BEGINNING.exec(bytes.toString("latin1", at, at + LONGEST_BEGINNING)) ?? [];
    if (found < 0 || beginning === undefined) {
      this.#isSplit = bytes.length < (found < 0 ? LONGEST_HEAD : at + LONGEST_BEGINNING);
      return;
    }
    this.#head = bytes.subarray(0, at);
    this.#separator = `},${beginning}`;
    this.#split(bytes.subarray(at), 0);
  }

  #split(bytes: Buffer, from: number): void {
    let start = 0;
    for (
      let end = bytes.indexOf(this.#separator, from);
      end >= 0;
      end = bytes.indexOf(this.#separator, start)
    ) {
      const item = this.#decode(bytes.subarray(start, end + 1));
      this.#isSplit = item !== undefined;
      if (item === undefined) break;
      this.items.push(item);
      start = end + 2;
    }
    this.#pieces = [bytes.subarray(start)];
  }
}
