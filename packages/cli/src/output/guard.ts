/** All text for the user passes this guard, so that names from other users cannot control the terminal. */
import { randomInt } from "node:crypto";
import type { Output } from "../command-deps.ts";

/** C0 except line feed and tab, DEL, C1, line separators, and characters that change the text direction (bidi). */
const HOSTILE = /(?![\n\t])[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

export function isHostile(text: string): boolean {
  return text.search(HOSTILE) >= 0;
}

function escapeHostile(text: string): string {
  return text.replace(HOSTILE, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/**
 * Escapes control and bidi characters as JSON does, also in data for scripts. Sequences that begin with `sequence`
 * pass: they contain a random number, which this function removes.
 */
export function guardOutput(output: Output): Output {
  // Parameters have at most four digits, so that code which measures a text recognizes the sequence.
  const mark = Array.from({ length: 3 }, () => `${randomInt(1000, 10_000)};`).join("");
  const own = new RegExp(`(\\r?\\x1b\\[)${mark}(\\d*[mK])`);
  return {
    write(text) {
      const parts = text.split(own);
      // The parts repeat: text, then the two groups of a sequence.
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
