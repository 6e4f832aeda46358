import { Document, visit } from "yaml";
import type { Output } from "../surroundings.ts";
import { isHostile } from "./guard.ts";

export type DataFormat = "json" | "yaml";

/** Prints a value for scripts. The layout of the value is part of the command's contract. */
export function printData(stdout: Output, value: unknown, format: DataFormat): void {
  stdout.write(format === "json" ? `${JSON.stringify(value, undefined, 2)}\n` : toYaml(value));
}

/**
 * YAML that means the same to kubectl, which reads YAML 1.1: `yes`, `on` and their like are quoted when they are
 * texts. Lines are not folded, so that texts can be found with grep.
 */
export function toYaml(value: unknown): string {
  const document = new Document(value, { version: "1.1", aliasDuplicateObjects: false });
  // The output escapes these, which means the same within double quotes alone.
  visit(document, {
    Scalar(_key, scalar) {
      if (typeof scalar.value === "string" && isHostile(scalar.value)) scalar.type = "QUOTE_DOUBLE";
    },
  });
  return document.toString({ lineWidth: 0 });
}
