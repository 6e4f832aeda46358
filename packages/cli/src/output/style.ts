import { styleText } from "node:util";
import type { Output } from "../surroundings.ts";

/** Colours that mean something: an addition, a removal, a thing to look at, a side remark, a heading. */
export interface Style {
  added(text: string): string;
  removed(text: string): string;
  warning(text: string): string;
  aside(text: string): string;
  heading(text: string): string;
}

/** Plain text unless the output is a terminal. */
export function styleFor(output: Output): Style {
  const paint =
    (format: Parameters<typeof styleText>[0]) =>
    (text: string): string =>
      output.isTerminal ? styleText(format, text, { validateStream: false }) : text;
  return {
    added: paint("green"),
    removed: paint("red"),
    warning: paint("yellow"),
    aside: paint("dim"),
    heading: paint("bold"),
  };
}
