/**
 * A regular expression for texts that one of these globs matches as a whole. `*` stands for any characters of a line,
 * `/` included. JavaScript and RE2, which is that of CEL, read it alike. No glob matches the empty text only.
 */
export function globPattern(globs: readonly string[]): string {
  const one = (glob: string): string =>
    glob
      .split("*")
      .map((text) => text.replace(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`))
      .join(".*");
  return `^(?:${globs.map(one).join("|")})$`;
}
