import { stat } from "node:fs/promises";
import path from "node:path";
import {
  counted,
  type Fault,
  formatFault,
  hasErrors,
  inOrder,
  isConfigFile,
  readConfigFiles,
  toDocuments,
} from "@berth/host";
import {
  type LabelFolderSource,
  labelFolderKind,
  parseLabelFolder,
  readLabelFolder,
  toFolderFault,
} from "@berth/placement";
import { readFolder } from "@berth/runtime";
import type { CommandDeps } from "../command-deps.ts";
import { labelFolderAt, unreadable } from "../config/settings.ts";
import { type ExitCode, exitCodes } from "../exit-codes.ts";
import { documentKinds } from "../kinds.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { readCapabilities } from "../read-capabilities.ts";

export interface ValidateOptions {
  readonly files: readonly string[];
  readonly allowReserved?: readonly string[];
  readonly labelFormat?: "plain" | "extended";
  /** Codes of warnings that are not shown. */
  readonly silence?: readonly string[];
  readonly output?: DataFormat;
}

/** Checks files without a cluster. Lists all faults of all files. */
export async function validate(options: ValidateOptions, { folder, stdout }: CommandDeps): Promise<ExitCode> {
  const found = await Promise.all(
    options.files.map((file) => checkOne(file, labelFolderAt(file, options, folder), folder)),
  );
  const isShown = ({ severity, reason }: Fault): boolean =>
    severity === "error" || options.silence?.includes(reason) !== true;
  const faults = found.flat().filter(isShown).sort(inOrder);
  const valid = !hasErrors(faults);
  if (options.output) printData(stdout, { valid, faults }, options.output);
  else {
    for (const fault of faults) stdout.write(`${formatFault(fault)}\n`);
    stdout.write(`${summary(faults, options.files.length)}\n`);
  }
  return valid ? exitCodes.done : exitCodes.faults;
}

/** The path decides how it is read: configuration by its extension, a folder by its contents, else a rule. */
async function checkOne(given: string, source: LabelFolderSource, folder: string): Promise<readonly Fault[]> {
  const found = await stat(source.path).catch((error: NodeJS.ErrnoException) => error);
  if (found instanceof Error) return [unreadable(given, found)];
  if (!found.isDirectory())
    return isConfigFile(path.basename(given)) ? checkConfig(given, source, folder) : checkRule(source);
  const { files } = await readFolder(source.path, { include: isConfigFile });
  const isConfig = [...files.keys()].some((file) => !file.includes("/"));
  return isConfig ? checkConfig(given, source, folder) : (await readLabelFolder(source)).faults;
}

/** Checks configuration, the label folder that it names, and the rules there. */
async function checkConfig(
  given: string,
  { options }: LabelFolderSource,
  folder: string,
): Promise<readonly Fault[]> {
  const { documents: settings, faults } = toDocuments(await readConfigFiles([given], folder), documentKinds);
  const source = settings.specOf(labelFolderKind);
  const read = source && (await readLabelFolder(source));
  const all = [...faults, ...(read?.faults ?? [])];
  const files = { settings, options, folder: read?.parsed, faults: all, hasConfig: true, environment: {} };
  return (await readCapabilities({ files, waiting: "act" }, "nodes")).flatMap((it) => it.faults);
}

/** Checks one rule file. Its label key is the last two parts of its path, as in a label folder. */
async function checkRule({ path: file, options, shown }: LabelFolderSource): Promise<readonly Fault[]> {
  const { files } = await readFolder(file);
  const [content] = files.values();
  if (content === undefined) return [];
  const key = path.join(path.basename(path.dirname(file)), path.basename(file));
  const { problems } = parseLabelFolder({ complete: true, files: new Map([[key, content]]) }, options);
  return problems.map((problem) => toFolderFault(shown, { ...problem, file: "" }));
}

function summary(faults: readonly Fault[], files: number): string {
  const errors = faults.filter(({ severity }) => severity === "error").length;
  const warnings = faults.length - errors;
  if (faults.length === 0) return `${counted(files, "path")} checked: no faults`;
  return `${counted(errors, "error")}, ${counted(warnings, "warning")}`;
}
