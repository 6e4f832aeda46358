import type { BodyReader } from "./transport.ts";

/** What the items of a list come after, as API servers write it: in one line, without blanks. */
const BEFORE_ITEMS = '"items":[';
/** An item as far as the name of its first field, with which every item of a list begins. */
const BEGINNING = /^\{"[^"\\]{1,60}":/;
const LONGEST_BEGINNING = 64;
/** Where the items have begun, if they ever do: a page's continue token has a few hundred bytes. */
const LONGEST_HEAD = 64 * 1024;

/**
 * Reads the answer to a list and decodes each item when its last byte has come, so that a page of large objects is never
 * in memory as a whole, and what the caller does not keep of an item is garbage before the next one is there.
 *
 * Items are told apart by their beginning. No text can hold it, because quotes in texts are escaped. A list inside an
 * item can: what is cut off there is no JSON, so from there on the answer stays in one piece, as it does when a server
 * writes lists in another way.
 */
export class ListReader<T> implements BodyReader {
  /** Those that were split off, in order. The others are in what `end` gives. */
  readonly items: T[] = [];
  readonly #decode: (item: Buffer) => T | undefined;
  #head: Buffer | undefined;
  #separator = "";
  /** What is not decoded yet; one piece while items are split off. */
  #pieces: Buffer[] = [];
  #isSplit = true;

  /** @param decode gives `undefined` for what is no JSON. */
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
