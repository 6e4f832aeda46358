/** From flags and configuration files to what Berth does. Everything wrong is told at once. */
import path from "node:path";
import { type Documents, documentOfFlag, type Fault, readConfigFiles, toDocuments } from "@berth/host";
import {
  type LabelFolderSource,
  type LabelOptions,
  labelFolderKind,
  labelOptionsSchema,
} from "@berth/placement";
import { CommandError, exitCodes } from "../exit-codes.ts";
import { documentKinds } from "../kinds.ts";

/** The options with which a command is given rules. */
export interface RuleOptions {
  readonly labelDir?: string;
  readonly config?: readonly string[];
  readonly allowReserved?: readonly string[];
  /** How the files of `labelDir` are read. Default `plain`. */
  readonly labelFormat?: "plain" | "extended";
}

/** What flags say about rules. @throws CommandError when a flag cannot be right whatever the files say. */
export function labelOptionsOfFlags(options: RuleOptions): LabelOptions {
  const format = options.labelFormat === "extended" ? "Extended" : "Plain";
  const parsed = labelOptionsSchema.safeParse({ allowReserved: options.allowReserved ?? [], format });
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const value = options.allowReserved?.[Number(issue?.path[1] ?? 0)] ?? "";
    throw new CommandError(`--allow-reserved ${value}: ${issue?.message ?? "is not valid"}`, exitCodes.usage);
  }
  return parsed.data;
}

/** @throws CommandError when a flag cannot be right whatever the files say. */
export function labelFolderOfFlags(given: RuleOptions, folder: string): LabelFolderSource | undefined {
  const options = labelOptionsOfFlags(given);
  const { labelDir } = given;
  return labelDir ? { path: path.resolve(folder, labelDir), shown: labelDir, options } : undefined;
}

/** Everything that a one-shot command needs. @throws CommandError with all faults when something is wrong. */
export async function loadSettings(options: RuleOptions, folder: string): Promise<Documents> {
  const labelFolder = labelFolderOfFlags(options, folder);
  const ofFlags = labelFolder === undefined ? [] : [documentOfFlag(labelFolderKind, labelFolder)];
  const files = await readConfigFiles(options.config ?? [], folder);
  const { documents, faults } = toDocuments(files, documentKinds, ofFlags);
  refuseFaults(faults);
  return documents;
}

/** @throws CommandError */
export function refuseFaults(faults: readonly Fault[]): void {
  const errors = faults.filter(({ severity }) => severity === "error");
  if (errors.length === 0) return;
  throw new ConfigFaultsError(errors);
}

/** The configuration cannot be used; says everything that is wrong with it. */
export class ConfigFaultsError extends CommandError {
  readonly faults: readonly Fault[];

  constructor(faults: readonly Fault[]) {
    const lines = faults.map(({ file, line, column, message }) =>
      [file, line, column]
        .filter((part) => part !== undefined)
        .join(":")
        .concat(`: ${message}`),
    );
    super(
      lines.length === 1
        ? (lines[0] ?? "")
        : `the configuration has ${lines.length} errors:\n  ${lines.join("\n  ")}`,
      exitCodes.faults,
    );
    this.faults = faults;
  }
}
