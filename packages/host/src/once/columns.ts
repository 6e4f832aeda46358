import { stripVTControlCharacters } from "node:util";

/** Spaces between two columns, as in kubectl. */
const GAP = 3;

/**
 * Aligns columns as kubectl does: headings in capitals, no lines, no spaces after the last column. Texts may contain
 * colours. Wide characters (CJK, emoji) count as two columns.
 */
export function formatColumns(given: readonly (readonly string[])[], indent = ""): string {
  const rows = given.map((row) => row.map(oneLine));
  const widths: number[] = [];
  for (const row of rows) {
    for (const [at, cell] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, displayWidth(cell));
  }
  return rows.map((row) => `${indent}${formatRow(row, widths)}\n`).join("");
}

function formatRow(row: readonly string[], widths: readonly number[]): string {
  const last = row.findLastIndex((cell) => cell !== "");
  return row
    .slice(0, last + 1)
    .map((cell, at) => (at === last ? cell : cell + " ".repeat((widths[at] ?? 0) - displayWidth(cell) + GAP)))
    .join("");
}

/** Names can contain line feeds: the rest of such a name would look like another row. */
export function oneLine(text: string): string {
  return text.replaceAll("\n", "\\n");
}

/** Number of terminal columns of the text. */
export function displayWidth(text: string): number {
  const plain = stripVTControlCharacters(text);
  let width = 0;
  for (const { segment } of new Intl.Segmenter("en").segment(plain)) width += widthOf(segment);
  return width;
}

/** East Asian Wide and Fullwidth (UAX #11, the ranges in common use) and emoji take two columns. */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}|[\u{20000}-\u{3fffd}]/u;

function widthOf(grapheme: string): number {
  return WIDE.test(grapheme) ? 2 : 1;
}
