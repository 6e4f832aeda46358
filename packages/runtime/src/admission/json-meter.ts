/**
 * The most elements of a body: objects, lists, and their entries. Nodes have 38 bytes for each, so the limit fits an
 * object of 1.5 MiB, the largest that etcd accepts. The worst such body costs JSON.parse 35 ms.
 */
export const MAX_ELEMENTS = 40_000;

/** The deepest nesting of a body. Kubernetes objects stay below 100; a recursive handler has stack for 10,000. */
export const MAX_DEPTH = 1000;

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [OPEN_LIST, CLOSE_LIST, OPEN_RECORD, CLOSE_RECORD] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * Measures JSON in pieces as it arrives. Returns `false` after too many elements or levels. An element is a comma or an
 * opening bracket. Bytes suffice: JSON syntax is ASCII, which is never part of another character in UTF-8.
 */
export function createJsonMeter(): (piece: Uint8Array) => boolean {
  let [elements, depth] = [0, 0];
  let [inText, isEscaped] = [false, false];
  return (piece) => {
    for (const byte of piece) {
      if (inText) {
        if (isEscaped) isEscaped = false;
        else if (byte === BACKSLASH) isEscaped = true;
        else if (byte === QUOTE) inText = false;
      } else if (byte === QUOTE) inText = true;
      else if (byte === COMMA) elements += 1;
      else if (byte === OPEN_LIST || byte === OPEN_RECORD) {
        elements += 1;
        depth += 1;
        if (depth > MAX_DEPTH) return false;
      } else if (byte === CLOSE_LIST || byte === CLOSE_RECORD) depth -= 1;
    }
    return elements <= MAX_ELEMENTS;
  };
}
