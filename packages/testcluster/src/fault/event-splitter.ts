/** A part of a watch stream: one whole line, or bytes that are passed on unread. */
export interface StreamPart {
  readonly bytes: Buffer;
  readonly wholeLine: boolean;
}

/** An object is at most 1.5 MiB in etcd; a line far longer than that is no event, and is passed on unread. */
const LONGEST_LINE_BYTES = 16 * 1024 * 1024;

/**
 * Cuts a watch stream (one JSON document a line) into lines. Reading can be switched on and off at every chunk:
 * a line is only ever given whole, or passed on raw, and never loses or doubles a byte.
 */
export class EventSplitter {
  #held: Buffer[] = [];
  #heldBytes = 0;
  /** The beginning of the current line has been passed on raw, so its rest must be too. */
  #insideRawLine = false;
  readonly #longestLine: number;

  constructor(longestLineBytes: number = LONGEST_LINE_BYTES) {
    this.#longestLine = longestLineBytes;
  }

  /** @param wanted whether whole lines are needed; when not, bytes go through at once. */
  push(chunk: Buffer, wanted: boolean): readonly StreamPart[] {
    if (chunk.length === 0) return [];
    if (!wanted) return [this.#passRaw(chunk)];
    const parts: StreamPart[] = [];
    let rest = chunk;
    for (let end = rest.indexOf("\n"); end >= 0; end = rest.indexOf("\n")) {
      parts.push(this.#completeLine(rest.subarray(0, end + 1)));
      rest = rest.subarray(end + 1);
    }
    if (rest.length > 0) parts.push(...this.#beginLine(rest));
    return parts;
  }

  /** What is left when the stream has ended inside a line. */
  flush(): Buffer {
    const left = Buffer.concat(this.#held);
    this.#held = [];
    this.#heldBytes = 0;
    return left;
  }

  #passRaw(chunk: Buffer): StreamPart {
    const bytes = this.#heldBytes > 0 ? Buffer.concat([this.flush(), chunk]) : chunk;
    this.#insideRawLine = !chunk.subarray(-1).equals(NEWLINE);
    return { bytes, wholeLine: false };
  }

  #completeLine(ending: Buffer): StreamPart {
    if (this.#insideRawLine) {
      this.#insideRawLine = false;
      return { bytes: ending, wholeLine: false };
    }
    return { bytes: this.#heldBytes > 0 ? Buffer.concat([this.flush(), ending]) : ending, wholeLine: true };
  }

  #beginLine(beginning: Buffer): readonly StreamPart[] {
    if (this.#insideRawLine) return [{ bytes: beginning, wholeLine: false }];
    if (this.#heldBytes + beginning.length > this.#longestLine) return [this.#passRaw(beginning)];
    this.#held.push(beginning);
    this.#heldBytes += beginning.length;
    return [];
  }
}

const NEWLINE: Buffer = Buffer.from("\n");
