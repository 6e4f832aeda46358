import type { BodyReader } from "../body-reader.ts";
import type { KubeObject } from "../object.ts";
import { CONTENT, decodeListMeta, isProtobuf, MAGIC, type ObjectDecoder } from "./decoder.ts";
import { BYTES } from "./reader.ts";

/** In a list. */
const METADATA = 1;
const ITEMS = 2;

/** Reads a list in protobuf, and decodes each item when its last byte has arrived. */
export class ProtobufListReader<T extends KubeObject> implements BodyReader {
  readonly items: T[] = [];
  readonly #decoder: Pick<ObjectDecoder<T>, "item">;
  #metadata: Record<string, unknown> = {};
  /** Not read yet. */
  #rest: Buffer = Buffer.alloc(0);
  /** Before the magic bytes, in what is before the list, in the list, or behind it. */
  #place: "start" | "before" | "list" | "behind" = "start";
  /** Bytes of the list that are not read yet. */
  #left = 0;
  #isFaulty = false;

  constructor(decoder: Pick<ObjectDecoder<T>, "item">) {
    this.#decoder = decoder;
  }

  add(chunk: Buffer): void {
    if (this.#isFaulty) return;
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    try {
      this.#read();
    } catch {
      this.#isFaulty = true;
    }
  }

  /** The list without its items, as JSON; nothing where the answer was no list. */
  end(): Buffer {
    const isRead = !this.#isFaulty && this.#place === "behind" && this.#rest.length === 0;
    return Buffer.from(isRead ? JSON.stringify({ metadata: this.#metadata }) : "");
  }

  #read(): void {
    let at = 0;
    for (let next = this.#next(at); next !== undefined; next = this.#next(at)) at = next;
    this.#rest = this.#rest.subarray(at);
  }

  /** Reads what begins at `at`, once it is there. @returns where the next begins. */
  #next(at: number): number | undefined {
    const bytes = this.#rest;
    if (this.#place === "start") {
      if (bytes.length < MAGIC.length) return undefined;
      if (!isProtobuf(bytes)) throw new RangeError("this is no answer of an API server");
      this.#place = "before";
      return MAGIC.length;
    }
    const tag = bytes[at];
    if (tag === undefined) return undefined;
    if ((tag & 7) !== BYTES || tag > 127) throw new RangeError("this is no field of a list");
    let length = 0;
    let start = at + 1;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[start++];
      if (byte === undefined) return undefined;
      length += (byte & 127) * scale;
      if (byte < 128) break;
    }
    if (this.#place === "before" && tag >>> 3 === CONTENT) {
      this.#left = length;
      this.#place = length > 0 ? "list" : "behind";
      return start;
    }
    const end = start + length;
    if (end > bytes.length) return undefined;
    if (this.#place !== "list") return end;
    this.#take(tag >>> 3, bytes.subarray(start, end));
    this.#left -= end - at;
    if (this.#left < 0) throw new RangeError("a list is longer than it says");
    if (this.#left === 0) this.#place = "behind";
    return end;
  }

  #take(field: number, bytes: Buffer): void {
    if (field === METADATA) this.#metadata = decodeListMeta(bytes);
    else if (field === ITEMS) this.items.push(this.#decoder.item(bytes));
  }
}
