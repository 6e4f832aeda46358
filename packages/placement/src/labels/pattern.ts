/** Regular expressions in linear time, so that no annotation can block the controller. */
import { RE2JS } from "re2js";

export interface Pattern {
  /** Finds a match anywhere in the text. Only `^` and `$` in the pattern anchor it. */
  test(text: string): boolean;
  /** The first group of the first match, or the whole match without a group; `undefined` without a match. */
  capture(text: string): string | undefined;
}

/** Only this many UTF-16 units of a text are matched. Only annotations can be longer. */
export const MAX_TEXT = 4096;

/** Compiles RE2 syntax: no backreferences, no lookaround. @returns an error message when the pattern is invalid. */
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
