import path from "node:path";
import type { Fault } from "@berth/host";
import { type ParsedFolder, parseLabelFolder, type RuleProblem } from "@berth/placement";
import { readFolder } from "@berth/runtime";
import { configReasons } from "./documents.ts";
import { isRuleFile, type LabelFolderSource } from "./settings.ts";

/** A fault of a rule, with its file as the user would name it. */
export function toFault(shown: string, { file, ...problem }: RuleProblem): Fault {
  return { ...problem, file: file === "" ? shown : path.join(shown, file) };
}

export interface ReadRules {
  readonly parsed: ParsedFolder;
  readonly faults: readonly Fault[];
  /** False when nothing is known about the rules: the folder is missing or cannot be read. */
  readonly read: boolean;
}

/** Reads the folder once. Total. */
export async function readLabelFolder(source: LabelFolderSource): Promise<ReadRules> {
  const { root, complete, files, problems } = await readFolder(source.path, { include: isRuleFile });
  const parsed = parseLabelFolder({ complete: root === "read" && complete, files }, source.options);
  if (root === "read") {
    const faults = parsed.problems.map((problem) => toFault(source.shown, problem));
    return { parsed, faults, read: true };
  }
  const why = problems[0]?.problem ?? root;
  const fault: Fault = {
    file: source.shown,
    severity: "error",
    reason: configReasons.LabelFolderUnreadable,
    message:
      root === "missing" ? "the label folder does not exist" : `the label folder cannot be read: ${why}`,
  };
  return { parsed, faults: [fault], read: false };
}
