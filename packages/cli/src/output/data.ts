import { Document, visit } from "yaml";
import type { Output } from "../command-deps.ts";
import { isHostile } from "./guard.ts";

export type DataFormat = "json" | "yaml";

/** Prints a value for scripts. The structure of the value is part of the command's contract. */
export function printData(stdout: Output, value: unknown, format: DataFormat): void {
  stdout.write(format === "json" ? `${JSON.stringify(value, undefined, 2)}\n` : toYaml(value));
}

/**
 * Prints YAML that kubectl reads as YAML 1.1: strings such as `yes` and `on` are quoted. Lines are not folded, so that
 * grep finds texts.
 */
export function toYaml(value: unknown): string {
  const document = new Document(value, { version: "1.1", aliasDuplicateObjects: false });
  // The output guard escapes these characters, and YAML reads its escapes only in double quotes.
  visit(document, {
    Scalar(_key, scalar) {
      if (typeof scalar.value === "string" && isHostile(scalar.value)) scalar.type = "QUOTE_DOUBLE";
    },
  });
  return document.toString({ lineWidth: 0 });
}
