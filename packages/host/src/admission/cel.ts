/** Literals for CEL expressions. A text from a document or a request is always quoted, so it cannot change one. */

/** A text as a CEL literal in ASCII. A lone surrogate becomes U+FFFD, as when Go reads JSON. */
export function celText(text: string): string {
  return `"${Array.from(text.toWellFormed(), escape).join("")}"`;
}

function escape(character: string): string {
  if (character === '"' || character === "\\") return `\\${character}`;
  const point = character.codePointAt(0) ?? 0;
  if (point >= 0x20 && point < 0x7f) return character;
  const digits = point.toString(16);
  return point > 0xffff ? `\\U${digits.padStart(8, "0")}` : `\\u${digits.padStart(4, "0")}`;
}

/** A list of texts as a CEL literal. */
export function celTexts(texts: readonly string[]): string {
  return `[${texts.map(celText).join(", ")}]`;
}
