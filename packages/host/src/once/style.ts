import type { Output } from "./output.ts";

/** Colours by meaning: addition, removal, warning, remark, heading. */
export interface Style {
  added(text: string): string;
  removed(text: string): string;
  warning(text: string): string;
  aside(text: string): string;
  heading(text: string): string;
}

/** Plain text unless the output is a terminal. */
export function styleFor(output: Output): Style {
  const { isTerminal, sequence = "\x1b[" } = output;
  const paint =
    (begin: number, end: number) =>
    (text: string): string =>
      isTerminal ? `${sequence}${begin}m${text}${sequence}${end}m` : text;
  return {
    added: paint(32, 39),
    removed: paint(31, 39),
    warning: paint(33, 39),
    aside: paint(2, 22),
    heading: paint(1, 22),
  };
}
