/** Receives the body of an answer. Must not throw for its content: `end` returns the bytes to decode. */
export interface BodyReader {
  add(chunk: Buffer): void;
  end(): Buffer;
  /** What is needed has arrived: the rest may be lost. Default false. */
  readonly isEnough?: boolean;
}

export function wholeBody(): BodyReader {
  const chunks: Buffer[] = [];
  return {
    add: (chunk) => void chunks.push(chunk),
    end() {
      const all = chunks.splice(0);
      const [only] = all;
      return only !== undefined && all.length === 1 ? only : Buffer.concat(all);
    },
  };
}

/** Reads with `first` when `isFirst` says so of the bytes that come first, else with `second`. */
export function eitherReader(
  isFirst: (bytes: Buffer) => boolean,
  first: BodyReader,
  second: BodyReader,
): BodyReader {
  let reader: BodyReader | undefined;
  return {
    add(chunk) {
      reader ??= isFirst(chunk) ? first : second;
      reader.add(chunk);
    },
    end: () => (reader ?? second).end(),
  };
}

/**
 * How an API server begins an object of a built-in kind. Only fields whose values hold no quote come before the version,
 * so an annotation cannot pass for it. It writes custom resources in another order.
 */
const UP_TO_VERSION =
  /^\{"kind":"\w+","apiVersion":"[\w./-]+","metadata":\{(?:"(?:name|generateName|namespace|selfLink|uid)":"[^"\\]*",)*"resourceVersion":"(\w+)"/;
/** Longer than kind, name, namespace and uid can be. */
const LONGEST_BEGINNING = 2048;

/**
 * Reads of an object its `metadata.resourceVersion` alone, and drops the rest unparsed. An answer that begins in another
 * way is read whole.
 */
export function versionOf(): BodyReader {
  const whole = wholeBody();
  let beginning = "";
  let version: string | undefined;
  return {
    add(chunk) {
      if (version !== undefined) return;
      whole.add(chunk);
      if (beginning.length >= LONGEST_BEGINNING) return;
      beginning += chunk.toString("latin1", 0, LONGEST_BEGINNING - beginning.length);
      version = UP_TO_VERSION.exec(beginning)?.[1];
      if (version !== undefined) whole.end();
    },
    end() {
      const bytes = whole.end();
      return version === undefined
        ? bytes
        : Buffer.from(JSON.stringify({ metadata: { resourceVersion: version } }));
    },
    get isEnough() {
      return version !== undefined;
    },
  };
}
