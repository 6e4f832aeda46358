/** The one way of texts to people: what others have named reaches no terminal as a command to it. */
import { randomInt } from "node:crypto";
import type { Output } from "../surroundings.ts";

/** C0 but the line feed and the tabulator, DEL, C1, separators of lines, and what turns the direction of text (bidi). */
const HOSTILE = /(?![\n\t])[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

export function isHostile(text: string): boolean {
  return text.search(HOSTILE) >= 0;
}

function escapeHostile(text: string): string {
  return text.replace(HOSTILE, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/**
 * Escapes control and bidi characters as JSON does, in data for scripts as well, but for the sequences that begin with
 * `sequence`: these hold a number that nobody else knows, and lose it here.
 */
export function guardOutput(output: Output): Output {
  // Parameters have four digits at most, so that whoever measures a text takes this for the sequence that it is.
  const mark = Array.from({ length: 3 }, () => `${randomInt(1000, 10_000)};`).join("");
  const own = new RegExp(`(\\r?\\x1b\\[)${mark}(\\d*[mK])`);
  return {
    write(text) {
      const parts = text.split(own);
      // Text, then the two groups of a sequence, and so on.
      output.write(parts.map((part, at) => (at % 3 === 0 ? escapeHostile(part) : part)).join(""));
    },
    sequence: `\x1b[${mark}`,
    get isTerminal() {
      return output.isTerminal;
    },
    get columns() {
      return output.columns;
    },
  };
}
