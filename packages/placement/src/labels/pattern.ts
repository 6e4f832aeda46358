/** Regular expressions in linear time: whoever can write an annotation must not be able to stop the controller. */
import { RE2JS } from "re2js";

export interface Pattern {
  /** Anywhere in the text, unless the pattern says `^` and `$`. */
  test(text: string): boolean;
  /** The first group of the first match, or the whole match without a group; `undefined` without a match. */
  capture(text: string): string | undefined;
}

/** Of longer texts (only annotations can be) this much is looked at. UTF-16 units. */
export const MAX_TEXT = 4096;

/** RE2 syntax: no backreferences, no lookaround. @returns what is wrong in words when it is not a pattern. */
export function compilePattern(source: string): Pattern | string {
  let compiled: RE2JS;
  try {
    compiled = RE2JS.compile(source);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return `not a regular expression (RE2): ${message.replace(/^error parsing regexp: /, "")}`;
  }
  return {
    test: (text) => compiled.matcher(text.slice(0, MAX_TEXT)).find(),
    capture(text) {
      const matcher = compiled.matcher(text.slice(0, MAX_TEXT));
      if (!matcher.find()) return undefined;
      return matcher.group(matcher.groupCount() > 0 ? 1 : 0) ?? undefined;
    },
  };
}
