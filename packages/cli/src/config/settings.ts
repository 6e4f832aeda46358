/** From flags and configuration files to what Berth does. Everything wrong is told at once. */
import path from "node:path";
import { type LabelOptions, labelOptionsSchema } from "@berth/placement";
import { type FolderSnapshot, readFolder } from "@berth/runtime";
import { CommandError, exitCodes } from "../exit-codes.ts";
import { configReasons, type LocatedDocument, readDocuments } from "./documents.ts";
import type { Fault } from "./fault.ts";
import { inOrder } from "./fault.ts";

/** The options with which a command is given rules. */
export interface RuleOptions {
  readonly labelDir?: string;
  readonly config?: readonly string[];
  readonly allowReserved?: readonly string[];
}

/** A folder of label rules that is in force. */
export interface LabelFolderSource {
  /** Absolute. */
  readonly path: string;
  /** As the user wrote it, for messages. */
  readonly shown: string;
  readonly options: LabelOptions;
}

/** What the configuration asks for. Absent: nothing acts on labels. */
export interface Settings {
  readonly labelFolder?: LabelFolderSource;
}

export interface ReadSettings {
  readonly settings: Settings;
  readonly faults: readonly Fault[];
}

/** One `--config` path and what was found there. */
export interface ConfigSnapshot {
  /** Absolute. */
  readonly path: string;
  /** As given. */
  readonly shown: string;
  readonly snapshot: FolderSnapshot;
}

/** Files of a configuration folder; of a mounted ConfigMap without kubelet's own entries. A file given is one. */
export function isConfigFile(file: string): boolean {
  return /\.(?:ya?ml|json)$/i.test(file) && !file.split("/").some((part) => part.startsWith(".."));
}

/** Kubelet's own entries of a mounted ConfigMap are no rules. */
export function isRuleFile(file: string): boolean {
  return !file.split("/").some((part) => part.startsWith(".."));
}

/** @throws CommandError when a flag cannot be right whatever the files say. */
export function labelFolderOfFlags(options: RuleOptions, folder: string): LabelFolderSource | undefined {
  const parsed = labelOptionsSchema.safeParse({ allowReserved: options.allowReserved ?? [] });
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const value = options.allowReserved?.[Number(issue?.path[1] ?? 0)] ?? "";
    throw new CommandError(`--allow-reserved ${value}: ${issue?.message ?? "is not valid"}`, exitCodes.usage);
  }
  if (!options.labelDir) return undefined;
  return { path: path.resolve(folder, options.labelDir), shown: options.labelDir, options: parsed.data };
}

/** Reads every `--config` path once. */
export function readConfigFiles(
  given: readonly string[],
  folder: string,
): Promise<readonly ConfigSnapshot[]> {
  return Promise.all(
    given.map(async (shown) => {
      const absolute = path.resolve(folder, shown);
      return {
        path: absolute,
        shown,
        snapshot: await readFolder(absolute, { include: includeFor(absolute) }),
      };
    }),
  );
}

/** A file given by name counts whatever its name. */
export function includeFor(given: string): (file: string) => boolean {
  return (file) => file === path.basename(given) || isConfigFile(file);
}

/** What files and flags say together. Total: a file that is wrong is reported, and the others count. */
export function toSettings(
  files: readonly ConfigSnapshot[],
  fromFlags: LabelFolderSource | undefined,
): ReadSettings {
  const faults: Fault[] = [];
  const documents: (LocatedDocument & { readonly folder: string })[] = [];
  for (const { shown, path: root, snapshot } of files) {
    for (const { path: file, problem } of snapshot.problems)
      faults.push(unreadable(shownPath(shown, root, file), problem));
    for (const { path: file, text } of snapshot.files.values()) {
      if (text === undefined) continue;
      const name = shownPath(shown, root, file);
      const read = readDocuments(name, text);
      faults.push(...read.faults);
      const absolute = path.basename(root) === file ? root : path.join(root, file);
      for (const found of read.documents) documents.push({ ...found, folder: path.dirname(absolute) });
    }
  }
  faults.push(...duplicatesOf(documents));
  const folders = documents.map(({ document, folder, file }): LabelFolderSource => {
    const { path: shown, allowReserved } = document.spec;
    return { path: path.resolve(folder, shown), shown: `${shown} (${file})`, options: { allowReserved } };
  });
  const all = fromFlags === undefined ? folders : [fromFlags, ...folders];
  for (const { document, file, line, column } of documents.slice(fromFlags === undefined ? 1 : 0)) {
    const first = all[0]?.shown ?? "";
    const message = `${document.name}: there can be one label folder, and there is already ${first}`;
    faults.push({
      file,
      line,
      column,
      severity: "error",
      reason: configReasons.TooManyLabelFolders,
      message,
    });
  }
  const [labelFolder] = all;
  return { settings: labelFolder === undefined ? {} : { labelFolder }, faults: faults.sort(inOrder) };
}

function duplicatesOf(documents: readonly LocatedDocument[]): readonly Fault[] {
  const seen = new Map<string, LocatedDocument>();
  return documents.flatMap((located): readonly Fault[] => {
    const { document, file, line, column } = located;
    const name = `${document.kind} ${document.name}`;
    const first = seen.get(name);
    if (first === undefined) {
      seen.set(name, located);
      return [];
    }
    const message = `${name} is already in ${first.file}:${first.line}`;
    return [{ file, line, column, severity: "error", reason: configReasons.DuplicateDocument, message }];
  });
}

function unreadable(file: string, problem: string): Fault {
  return { file, severity: "error", reason: configReasons.FileUnreadable, message: problem };
}

/** The path of a file as somebody in the same folder would write it. */
function shownPath(given: string, root: string, file: string): string {
  return file === "" || file === path.basename(root) ? given : path.join(given, file);
}

/** Everything that a one-shot command needs. @throws CommandError with all faults when something is wrong. */
export async function loadSettings(options: RuleOptions, folder: string): Promise<Settings> {
  const fromFlags = labelFolderOfFlags(options, folder);
  const read = toSettings(await readConfigFiles(options.config ?? [], folder), fromFlags);
  refuseFaults(read.faults);
  return read.settings;
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
