/** From flags and configuration files to what Berth does. Everything wrong is told at once. */
import path from "node:path";
import type { AdmissionServerSpec, Fault, Position } from "@berth/host";
import { inOrder } from "@berth/host";
import {
  type ArchitecturePolicySpec,
  type LabelOptions,
  type LabelRuleSpec,
  labelOptionsSchema,
  type NodeFootprintSpec,
  type StartupGateSpec,
} from "@berth/placement";
import { type FolderSnapshot, readFolder } from "@berth/runtime";
import { CommandError, exitCodes } from "../exit-codes.ts";
import { configReasons, type LocatedDocument, readDocuments } from "./documents.ts";
import type { ImageRegistriesSpec, RegistrySpec } from "./image-registries.ts";
import type { Kind, Specs } from "./kinds.ts";
import type { WorkerPoolsSpec } from "./worker-pools.ts";

/** The options with which a command is given rules. */
export interface RuleOptions {
  readonly labelDir?: string;
  readonly config?: readonly string[];
  readonly allowReserved?: readonly string[];
  /** How the files of `labelDir` are read. Default `plain`. */
  readonly labelFormat?: "plain" | "extended";
}

/** A folder of label rules that is in force. */
export interface LabelFolderSource {
  /** Absolute. */
  readonly path: string;
  /** As the user wrote it, for messages. */
  readonly shown: string;
  readonly options: LabelOptions;
}

/** A document of a file. Its `spec` has passed the schema; what is wrong beyond that is found when it is compiled. */
export interface LocatedSpec<S> extends Position {
  readonly name: string;
  readonly spec: S;
  /** Of its metadata. */
  readonly annotations: Readonly<Record<string, string>>;
  /** As the user named it. */
  readonly file: string;
  /** Where the value at this path inside `spec` stands, for faults that are found later. */
  readonly positionOf: (path: readonly PropertyKey[]) => Position;
}

export type LocatedLabelRule = LocatedSpec<LabelRuleSpec>;
export type LocatedStartupGate = LocatedSpec<StartupGateSpec>;
export type LocatedArchitecturePolicy = LocatedSpec<ArchitecturePolicySpec>;
export type LocatedNodeFootprint = LocatedSpec<NodeFootprintSpec>;

/** What the configuration asks for. Without label folder, rules, gates, policies and footprints nothing acts. */
export interface Settings {
  readonly labelFolder?: LabelFolderSource;
  /** In the order of files and of documents in them; no name stands twice. */
  readonly labelRules: readonly LocatedLabelRule[];
  readonly startupGates: readonly LocatedStartupGate[];
  readonly architecturePolicies: readonly LocatedArchitecturePolicy[];
  readonly nodeFootprints: readonly LocatedNodeFootprint[];
  /** Its folder of certificates is absolute. */
  readonly admissionServer?: AdmissionServerSpec;
  /** Its paths are absolute. */
  readonly imageRegistries?: ImageRegistriesSpec;
  /** Absent: nothing is made of WorkerPools. */
  readonly workerPools?: WorkerPoolsSpec;
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
  const { documents, faults } = readAll(files);
  const folders = folderSources(documents);
  const inForce = fromFlags ?? folders[0]?.source;
  const surplus = fromFlags === undefined ? folders.slice(1) : folders;
  const all = [
    ...faults,
    ...duplicatesOf(documents),
    ...surplus.map(({ located }) => tooMany(located, inForce?.shown ?? "")),
  ];
  for (const kind of SINGLE) {
    const [first, ...others] = documents.filter(({ document }) => document.kind === kind);
    all.push(...others.map((located) => onlyOne(located, first)));
  }
  const [admissionServer] = documents.flatMap(serverOf);
  const [imageRegistries] = documents.flatMap(registriesOf);
  const [workerPools] = documents.flatMap(({ document }) =>
    document.kind === "WorkerPools" ? [document.spec] : [],
  );
  return {
    settings: {
      labelRules: specsOf(documents, "LabelRule"),
      startupGates: specsOf(documents, "StartupGate"),
      architecturePolicies: specsOf(documents, "ArchitecturePolicy"),
      nodeFootprints: specsOf(documents, "NodeFootprint"),
      ...(inForce && { labelFolder: inForce }),
      ...(admissionServer && { admissionServer }),
      ...(imageRegistries && { imageRegistries }),
      ...(workerPools && { workerPools }),
    },
    faults: all.sort(inOrder),
  };
}

/** A document with the folder of its file. */
type PlacedDocument = LocatedDocument & { readonly folder: string };

function readAll(files: readonly ConfigSnapshot[]): {
  readonly documents: readonly PlacedDocument[];
  readonly faults: readonly Fault[];
} {
  const faults: Fault[] = [];
  const documents: PlacedDocument[] = [];
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
  return { documents, faults };
}

interface FolderDocument {
  readonly located: PlacedDocument;
  readonly source: LabelFolderSource;
}

function folderSources(documents: readonly PlacedDocument[]): readonly FolderDocument[] {
  return documents.flatMap((located): readonly FolderDocument[] => {
    const { document, folder, file } = located;
    if (document.kind !== "LabelFolder") return [];
    const { path: shown, ...options } = document.spec;
    return [{ located, source: { path: path.resolve(folder, shown), shown: `${shown} (${file})`, options } }];
  });
}

/** Kinds of which there can be one document: it is about Berth itself. */
const SINGLE: readonly Kind[] = ["AdmissionServer", "ImageRegistries", "WorkerPools"];

function serverOf({ document, folder }: PlacedDocument): readonly AdmissionServerSpec[] {
  if (document.kind !== "AdmissionServer") return [];
  const { certificates, clientCertificateAuthority: authority, ...spec } = document.spec;
  return [
    {
      ...spec,
      ...(certificates !== undefined && { certificates: path.resolve(folder, certificates) }),
      ...(authority !== undefined && { clientCertificateAuthority: path.resolve(folder, authority) }),
    },
  ];
}

function registriesOf({ document, folder }: PlacedDocument): readonly ImageRegistriesSpec[] {
  if (document.kind !== "ImageRegistries") return [];
  const { registries, dockerConfig, ...spec } = document.spec;
  return [
    {
      ...spec,
      registries: registries.map((registry) => atFolder(registry, folder)),
      ...(dockerConfig !== undefined && { dockerConfig: path.resolve(folder, dockerConfig) }),
    },
  ];
}

function atFolder({ certificateAuthority: file, ...registry }: RegistrySpec, folder: string): RegistrySpec {
  return file === undefined ? registry : { ...registry, certificateAuthority: path.resolve(folder, file) };
}

function onlyOne(
  { document, file, line, column }: LocatedDocument,
  first: LocatedDocument | undefined,
): Fault {
  const { kind, name } = document;
  const message = `${name}: there can be one ${kind}, and there is already one in ${first?.file ?? ""}`;
  const reason = configReasons.DuplicateDocument;
  return { file, line, column, severity: "error", reason, message };
}

/** Of two with one name the first: the second is a fault. */
function specsOf<K extends ServedKind>(
  documents: readonly PlacedDocument[],
  kind: K,
): readonly LocatedSpec<Specs[K]>[] {
  const byName = new Map<string, LocatedSpec<Specs[K]>>();
  for (const { document, file, line, column, positionOf } of documents) {
    if (document.kind !== kind || byName.has(document.name)) continue;
    const { name, annotations } = document;
    const spec = document.spec as Specs[K];
    byName.set(name, { name, spec, annotations, file, line, column, positionOf });
  }
  return [...byName.values()];
}

type ServedKind = "LabelRule" | "StartupGate" | "ArchitecturePolicy" | "NodeFootprint";

function tooMany({ document, file, line, column }: LocatedDocument, first: string): Fault {
  const message = `${document.name}: there can be one label folder, and there is already ${first}`;
  const reason = configReasons.TooManyLabelFolders;
  return { file, line, column, severity: "error", reason, message };
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
