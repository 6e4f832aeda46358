/** Converts flags and configuration files to settings. Reports all faults at once. */
import path from "node:path";
import {
  configReasons,
  type Documents,
  documentOfFlag,
  type Fault,
  readConfigFiles,
  toDocuments,
} from "@berth/host";
import {
  type LabelFolderSource,
  type LabelOptions,
  labelFolderKind,
  labelOptionsSchema,
} from "@berth/placement";
import { CommandError, exitCodes } from "../exit-codes.ts";
import { documentKinds } from "../kinds.ts";

/** The options with which a user passes rules to a command. */
export interface RuleOptions {
  readonly labelDir?: string;
  readonly config?: readonly string[];
  readonly allowReserved?: readonly string[];
  /** How the files of `labelDir` are read. Default `plain`. */
  readonly labelFormat?: "plain" | "extended";
}

/** Label options from flags. @throws CommandError when a flag is wrong regardless of the files. */
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

/** @throws CommandError when a flag is wrong regardless of the files. */
export function labelFolderOfFlags(given: RuleOptions, folder: string): LabelFolderSource | undefined {
  const source = labelFolderAt(given.labelDir ?? "", given, folder);
  return given.labelDir ? source : undefined;
}

/** @throws CommandError when a flag is wrong regardless of the files. */
export function labelFolderAt(shown: string, flags: RuleOptions, folder: string): LabelFolderSource {
  return { path: path.resolve(folder, shown), shown, options: labelOptionsOfFlags(flags) };
}

/** Reads the settings of a one-shot command. @throws CommandError with all faults. */
export async function loadSettings(options: RuleOptions, folder: string): Promise<Documents> {
  const labelFolder = labelFolderOfFlags(options, folder);
  const ofFlags = labelFolder === undefined ? [] : [documentOfFlag(labelFolderKind, labelFolder)];
  const files = await readConfigFiles(options.config ?? [], folder);
  const { documents, faults } = toDocuments(files, documentKinds, ofFlags);
  refuseFaults(faults);
  return documents;
}

/** @throws CommandError with all errors among the faults. */
export function refuseFaults(faults: readonly Fault[]): void {
  const errors = faults.filter(({ severity }) => severity === "error");
  const lines = errors.map(({ file, line, column, message }) =>
    [file, line, column]
      .filter((part) => part !== undefined)
      .join(":")
      .concat(`: ${message}`),
  );
  const [first, ...more] = lines;
  if (first === undefined) return;
  const all = `the configuration has ${lines.length} errors:\n  ${lines.join("\n  ")}`;
  throw new CommandError(more.length === 0 ? first : all, exitCodes.faults);
}

/** The fault for a path that a command cannot read. */
export function unreadable(file: string, { code, message }: NodeJS.ErrnoException): Fault {
  const why = code === "ENOENT" ? "there is no such file or folder" : `cannot be read: ${code ?? message}`;
  return { file, severity: "error", reason: configReasons.FileUnreadable, message: why };
}
