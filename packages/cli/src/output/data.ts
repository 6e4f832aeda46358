import { stringify } from "yaml";
import type { Output } from "../surroundings.ts";

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
  return stringify(value, { version: "1.1", lineWidth: 0, aliasDuplicateObjects: false });
}
