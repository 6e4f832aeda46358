/** Inputs that are nearly right: valid ones, changed in a few places as an attacker or an accident would. */
import * as fc from "fast-check";

/** What parsers stumble over: brackets, escapes, YAML's signs, names of prototypes, large numbers, foreign characters. */
const PIECES: readonly string[] = [
  ...Array.from('{}[]",:\\&*!|>%@#?-~=;'),
  "\n",
  "\t",
  "\0",
  "\u001b[2J",
  "\u202e",
  "\ud800",
  "\u{10ffff}",
  "__proto__",
  "constructor",
  "toString",
  "null",
  "true",
  "-0",
  "1e999",
  "9007199254740993",
  "---\n",
  "<<: *a\n",
  "&a [*a, *a]",
  "!!binary |\n",
  "0x1F",
  "2001-01-01T00:00:00Z",
  "%00",
  "../",
];

/** One change: `at` and `length` are shares of the text, so that the same change fits every text. */
interface Change {
  readonly kind: "cut" | "repeat" | "insert" | "swap" | "nest";
  readonly at: number;
  readonly length: number;
  readonly piece: string;
  readonly times: number;
}

const change: fc.Arbitrary<Change> = fc.record({
  kind: fc.constantFrom("cut", "repeat", "insert", "swap", "nest"),
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  length: fc.double({ min: 0, max: 0.2, noNaN: true }),
  piece: fc.oneof(fc.constantFrom(...PIECES), fc.string({ unit: "binary", maxLength: 8 })),
  times: fc.oneof(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 400 })),
});

function apply(text: string, { kind, at, length, piece, times }: Change): string {
  const from = Math.floor(at * text.length);
  const to = Math.min(text.length, from + Math.ceil(length * text.length));
  const [before, part, after] = [text.slice(0, from), text.slice(from, to), text.slice(to)];
  if (kind === "cut") return before + after;
  if (kind === "repeat") return before + part.repeat(Math.min(times, 1 + 20_000 / (part.length + 1))) + after;
  if (kind === "swap") return after + part + before;
  if (kind === "nest") return before + "[".repeat(times) + part + "]".repeat(times) + after;
  return before + piece.repeat(times) + after;
}

/** Valid inputs with up to four changes. */
export function mutated(valid: readonly string[]): fc.Arbitrary<string> {
  return fc
    .tuple(fc.constantFrom(...valid), fc.array(change, { maxLength: 4 }))
    .map(([text, changes]) => changes.reduce(apply, text));
}
