/** The difference of two texts, line by line, as `diff -u` shows it without places. Pure. */

/** With more lines the whole texts are shown: the table of a comparison grows with their product. */
const MAX_LINES = 2000;

/** ` ` before a common line, `-` before one of `before`, `+` before one of `after`. Empty where they are equal. */
export function textDiff(before: string, after: string): readonly string[] {
  if (before === after) return [];
  const [a, b] = [linesOf(before), linesOf(after)];
  if (a.length > MAX_LINES || b.length > MAX_LINES)
    return [...a.map((it) => `-${it}`), ...b.map((it) => `+${it}`)];
  const lengths = commonLengths(a, b);
  const lines: string[] = [];
  for (let i = 0, j = 0; i < a.length || j < b.length; ) {
    const isCommon = i < a.length && j < b.length && a[i] === b[j];
    if (isCommon) {
      lines.push(` ${a[i]}`);
      i += 1;
      j += 1;
    } else if (i < a.length && (j >= b.length || (lengths[i + 1]?.[j] ?? 0) >= (lengths[i]?.[j + 1] ?? 0))) {
      lines.push(`-${a[i]}`);
      i += 1;
    } else {
      lines.push(`+${b[j]}`);
      j += 1;
    }
  }
  return lines;
}

const linesOf = (text: string): readonly string[] => (text === "" ? [] : text.split("\n"));

/** `[i][j]`: how many lines the rests from `i` and `j` have in common, in order. */
function commonLengths(a: readonly string[], b: readonly string[]): readonly Uint16Array[] {
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--) {
      const [here, next] = [lengths[i] as Uint16Array, lengths[i + 1] as Uint16Array];
      here[j] = a[i] === b[j] ? (next[j + 1] ?? 0) + 1 : Math.max(next[j] ?? 0, here[j + 1] ?? 0);
    }
  return lengths;
}
