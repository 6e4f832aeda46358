/** Reads a label folder once, or again after every change. */
import path from "node:path";
import { type Fault, FaultReport, isEntryOfKubelet } from "@berth/host";
import {
  type Clock,
  type Component,
  type FolderSnapshot,
  isSameData,
  type Logger,
  type Running,
  readFolder,
  watchFolder,
  whenAborted,
} from "@berth/runtime";
import type { RuleProblem } from "./checks.ts";
import type { LabelFolderSource } from "./config.ts";
import { type ParsedFolder, parseLabelFolder } from "./folder.ts";

export function isRuleFile(file: string): boolean {
  return !isEntryOfKubelet(file);
}

/** Converts a fault of a rule. Its file path begins with the folder as the user wrote it. */
export function toFolderFault(shown: string, { file, ...problem }: RuleProblem): Fault {
  return { ...problem, file: file === "" ? shown : path.join(shown, file) };
}

export interface ReadLabelFolder {
  readonly parsed: ParsedFolder;
  readonly faults: readonly Fault[];
  /** False when the folder is missing or unreadable, so the rules are unknown. */
  readonly read: boolean;
}

/** Reads the folder once. Never rejects: problems are faults. */
export async function readLabelFolder(source: LabelFolderSource): Promise<ReadLabelFolder> {
  const snapshot = await readFolder(source.path, { include: isRuleFile });
  const { root, problems } = snapshot;
  const parsed = parse(source, snapshot);
  const read = root === "read";
  if (read) return { parsed, read, faults: faultsOf(source, parsed) };
  const why = root === "missing" ? "does not exist" : `cannot be read: ${problems[0]?.problem ?? root}`;
  const fault = { file: source.shown, severity: "error", reason: "LabelFolderUnreadable" } as const;
  return { parsed, read, faults: [{ ...fault, message: `the label folder ${why}` }] };
}

function parse({ options }: LabelFolderSource, { root, complete, files }: FolderSnapshot): ParsedFolder {
  return parseLabelFolder({ complete: root === "read" && complete, files }, options);
}

function faultsOf({ shown }: LabelFolderSource, { problems }: ParsedFolder): readonly Fault[] {
  return problems.map((problem) => toFolderFault(shown, problem));
}

export interface LabelFolderFollowerOptions {
  /** Resolves after the first folder to follow is known. */
  readonly whenTold: Promise<void>;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called with each set of rules that comes into force, or `undefined` when there is no label folder any more. */
  readonly onRules: (parsed: ParsedFolder | undefined) => void;
  /** Called once for each fault when it appears; again only if the fault ends and returns. */
  readonly onFault: (fault: Fault) => void;
}

/**
 * Watches one label folder. `follow` switches to another folder; the previous rules stay in force until Berth has read
 * the new one. `start` resolves after the first read of the folder, with or without errors.
 */
export class LabelFolderFollower implements Component {
  readonly name = "rules";
  readonly #options: LabelFolderFollowerOptions;
  readonly #faults: FaultReport;
  readonly #firstReading = Promise.withResolvers<void>();
  #signal: AbortSignal | undefined;
  #source: LabelFolderSource | undefined;
  #stop = new AbortController();
  /** Watches that have not ended. */
  readonly #watches = new Set<Promise<void>>();
  /** Why there are no rules yet: Berth has not read the folder successfully. */
  #problem: string | undefined;

  constructor(options: LabelFolderFollowerOptions) {
    this.#options = options;
    this.#faults = new FaultReport(options.onFault);
  }

  async start(signal: AbortSignal): Promise<Running> {
    this.#signal = signal;
    const aborted = whenAborted(signal);
    if (this.#source !== undefined) this.#watch(this.#source, signal);
    await Promise.race([this.#options.whenTold, aborted]);
    if (this.#source !== undefined) await Promise.race([this.#firstReading.promise, aborted]);
    return { ended: aborted.then(() => Promise.all(this.#watches)).then(() => undefined) };
  }

  /** @param source the folder to follow from now on; `undefined` for none. */
  follow(source: LabelFolderSource | undefined): void {
    const { path: folder, options } = this.#source ?? {};
    if (source?.path === folder && isSameData(source?.options, options)) return;
    this.#stop.abort();
    this.#stop = new AbortController();
    this.#source = source;
    this.#problem = source && `${source.shown} is not read yet`;
    if (source === undefined) {
      this.#faults.report("rules", []);
      this.#firstReading.resolve();
      this.#options.onRules(undefined);
    } else if (this.#signal !== undefined) this.#watch(source, this.#signal);
  }

  problem(): string | undefined {
    return this.#problem;
  }

  #watch(source: LabelFolderSource, signal: AbortSignal): void {
    const { clock, log } = this.#options;
    log.info("following the label folder", { folder: source.path });
    const watch = watchFolder({
      path: source.path,
      signal: AbortSignal.any([signal, this.#stop.signal]),
      include: isRuleFile,
      clock,
      onChange: (snapshot) => this.#take(source, snapshot),
      onProblem: ({ problem, path: file }) =>
        log.warn("label folder", { file: file || source.shown, problem }),
    });
    this.#watches.add(watch);
    void watch.finally(() => this.#watches.delete(watch));
  }

  #take(source: LabelFolderSource, snapshot: FolderSnapshot): void {
    const { root } = snapshot;
    if (root === "read") this.#problem = undefined;
    else this.#problem &&= `the label folder ${source.shown} is ${root}`;
    const parsed = parse(source, snapshot);
    const errors = parsed.problems.filter(({ severity }) => severity === "error").length;
    const { log, onRules } = this.#options;
    log.info("label rules read", { folder: source.path, root, rules: parsed.rules.count, errors });
    this.#faults.report("rules", faultsOf(source, parsed));
    onRules(parsed);
    this.#firstReading.resolve();
  }
}
