/** Where the events of a watch begin and end: the framing of JSON, and that of protobuf. */

/** etcd refuses objects over 1.5 MB by default; what is longer is no watch event. */
export const MAX_EVENT_BYTES: number = 16 * 1024 * 1024;

export interface EventSplitter {
  /** The events that are complete with this chunk, in order. */
  split(chunk: Buffer): Iterable<Buffer>;
  /** Bytes of an event that is not complete; all of its bytes when it is longer than `MAX_EVENT_BYTES`. */
  readonly pending: number;
}

const NEWLINE = 0x0a;

/** JSON: one line each. */
export class LineSplitter implements EventSplitter {
  #rest: Buffer[] = [];
  pending = 0;

  *split(chunk: Buffer): Iterable<Buffer> {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      const line = chunk.subarray(start, end);
      const whole = this.#rest.length === 0 ? line : Buffer.concat([...this.#rest, line]);
      this.#rest = [];
      this.pending = 0;
      start = end + 1;
      if (whole.length > 0) yield whole;
    }
    if (start === chunk.length) return;
    this.#rest.push(chunk.subarray(start));
    this.pending += chunk.length - start;
  }
}

/** A length of four bytes is before each event. */
const LENGTH_BYTES = 4;

/** Protobuf. */
export class FrameSplitter implements EventSplitter {
  #rest: Buffer[] = [];
  pending = 0;
  /** With the bytes of its length; `0` while that is not known. */
  #wanted = 0;

  *split(chunk: Buffer): Iterable<Buffer> {
    this.#rest.push(chunk);
    this.pending += chunk.length;
    while (this.pending >= (this.#wanted || LENGTH_BYTES)) {
      const bytes = this.#rest.length === 1 ? (this.#rest[0] ?? chunk) : Buffer.concat(this.#rest);
      this.#wanted = LENGTH_BYTES + bytes.readUInt32BE();
      if (this.#wanted > MAX_EVENT_BYTES) {
        this.pending = this.#wanted;
        return;
      }
      const isWhole = bytes.length >= this.#wanted;
      const rest = isWhole ? bytes.subarray(this.#wanted) : bytes;
      const frame = isWhole ? bytes.subarray(LENGTH_BYTES, this.#wanted) : undefined;
      this.#rest = rest.length === 0 ? [] : [rest];
      this.pending = rest.length;
      if (frame === undefined) return;
      this.#wanted = 0;
      yield frame;
    }
  }
}
