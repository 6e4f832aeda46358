import { Document, visit } from "yaml";
import type { Output } from "../command-deps.ts";
import { isHostile } from "./guard.ts";
import type { Query } from "./jsonpath.ts";

export type DataFormat = "json" | "yaml" | "name" | Query;

/**
 * Prints a value for scripts. The structure of the value is part of the command's contract.
 *
 * @param names of commands that list objects: KIND/NAME of each, for `-o name`.
 */
export function printData(
  stdout: Output,
  value: unknown,
  format: DataFormat,
  names: readonly string[] = [],
): void {
  if (format === "json") stdout.write(`${JSON.stringify(value, undefined, 2)}\n`);
  else if (format === "yaml") stdout.write(toYaml(value));
  else if (format === "name") stdout.write([...new Set(names)].map((name) => `${name}\n`).join(""));
  else stdout.write(format(value));
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
