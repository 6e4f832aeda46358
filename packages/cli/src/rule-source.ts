import { type Fault, FaultReport, hasErrors } from "@berth/host";
import { type ParsedFolder, parseLabelFolder, type RuleProblem } from "@berth/placement";
import {
  type Clock,
  type Component,
  type FolderSnapshot,
  type Logger,
  type Running,
  watchFolder,
} from "@berth/runtime";
import { toFault } from "./config/label-folder.ts";
import {
  type ConfigSnapshot,
  includeFor,
  isRuleFile,
  type LabelFolderSource,
  type Settings,
  toSettings,
} from "./config/settings.ts";

export interface RuleSourceOptions {
  /** Configuration files and folders, each watched. */
  readonly config: readonly { readonly path: string; readonly shown: string }[];
  /** From flags; stays in force whatever the files say. */
  readonly labelFolder?: LabelFolderSource;
  readonly clock: Clock;
  readonly log: Logger;
  /** Gets each set of rules that comes into force; `undefined` when there is no label folder any more. */
  readonly onRules: (parsed: ParsedFolder | undefined) => void;
  /** Gets what the configuration files say, each time they were read without an error. */
  readonly onDocuments?: (settings: Settings) => void;
  /** Gets each fault when it appears, and again only after it was gone. */
  readonly onFault: (fault: Fault) => void;
}

/**
 * Follows the configuration and the label folder that it names, live.
 *
 * - Configuration with errors never replaces one that worked: it is reported, and the last good one stays in force.
 * - Another folder takes over with its first complete reading; until then the rules of the one before stay.
 * - Started once the rules were read for the first time, whatever came of it.
 */
export class RuleSource implements Component {
  readonly name = "rules";
  readonly #options: RuleSourceOptions;
  readonly #config = new Map<string, ConfigSnapshot>();
  readonly #firstReading = Promise.withResolvers<void>();
  readonly #faults: FaultReport;
  /** The folder in force with the watch that follows it. */
  #folder: { readonly source: LabelFolderSource; readonly stop: AbortController } | undefined;
  /** Those that have not ended. */
  readonly #watches = new Set<Promise<void>>();
  #lastRoot: FolderSnapshot["root"] | undefined;
  #wasRead = false;

  constructor(options: RuleSourceOptions) {
    this.#options = options;
    this.#faults = new FaultReport(options.onFault);
  }

  async start(signal: AbortSignal): Promise<Running> {
    const { config, labelFolder } = this.#options;
    for (const entry of config) this.#own(this.#watchConfig(entry, signal));
    if (config.length === 0)
      this.#apply(
        {
          labelRules: [],
          startupGates: [],
          architecturePolicies: [],
          nodeFootprints: [],
          ...(labelFolder && { labelFolder }),
        },
        signal,
      );
    const aborted = new Promise<void>((resolve) =>
      signal.addEventListener("abort", () => resolve(), { once: true }),
    );
    if (!signal.aborted) await Promise.race([this.#firstReading.promise, aborted]);
    return { ended: this.#whenEnded(aborted) };
  }

  /** Not ready while the folder has never been seen: nothing is decided without it. */
  problem(): string | undefined {
    if (this.#folder === undefined || this.#wasRead) return undefined;
    const { shown } = this.#folder.source;
    return this.#lastRoot === undefined
      ? `${shown} is not read yet`
      : `the label folder ${shown} is ${this.#lastRoot}`;
  }

  async #whenEnded(aborted: Promise<void>): Promise<void> {
    await aborted;
    this.#folder?.stop.abort();
    await Promise.all(this.#watches);
  }

  #own(watch: Promise<void>): void {
    this.#watches.add(watch);
    void watch.finally(() => this.#watches.delete(watch));
  }

  #watchConfig(
    { path, shown }: { readonly path: string; readonly shown: string },
    signal: AbortSignal,
  ): Promise<void> {
    return watchFolder({
      path,
      signal,
      include: includeFor(path),
      clock: this.#options.clock,
      onChange: (snapshot) => {
        this.#config.set(path, { path, shown, snapshot });
        this.#reload(signal);
      },
      onProblem: ({ problem, path: file }) =>
        this.#options.log.warn("configuration", { file: file || shown, problem }),
    });
  }

  #reload(signal: AbortSignal): void {
    const { config, labelFolder } = this.#options;
    const read = config
      .map(({ path }) => this.#config.get(path))
      .filter((snapshot) => snapshot !== undefined);
    if (read.length < config.length) return;
    const { settings, faults } = toSettings(read, labelFolder);
    this.#faults.report("config", faults);
    if (hasErrors(faults)) {
      this.#firstReading.resolve();
      return;
    }
    this.#options.onDocuments?.(settings);
    this.#apply(settings, signal);
  }

  #apply({ labelFolder }: Settings, signal: AbortSignal): void {
    const current = this.#folder;
    if (labelFolder === undefined) {
      current?.stop.abort();
      this.#folder = undefined;
      this.#firstReading.resolve();
      this.#faults.report("rules", []);
      this.#options.onRules(undefined);
      return;
    }
    if (current !== undefined && isSameSource(current.source, labelFolder)) return;
    current?.stop.abort();
    const stop = new AbortController();
    this.#folder = { source: labelFolder, stop };
    this.#lastRoot = undefined;
    this.#wasRead = false;
    this.#options.log.info("following the label folder", { folder: labelFolder.path });
    this.#own(this.#watchRules(labelFolder, AbortSignal.any([signal, stop.signal])));
  }

  #watchRules(source: LabelFolderSource, signal: AbortSignal): Promise<void> {
    return watchFolder({
      path: source.path,
      signal,
      include: isRuleFile,
      clock: this.#options.clock,
      onChange: (snapshot) => this.#take(source, snapshot),
      onProblem: ({ problem, path: file }) =>
        this.#options.log.warn("label folder", { file: file || source.shown, problem }),
    });
  }

  #take(source: LabelFolderSource, { root, complete, files }: FolderSnapshot): void {
    this.#lastRoot = root;
    if (root === "read") this.#wasRead = true;
    const parsed = parseLabelFolder({ complete: root === "read" && complete, files }, source.options);
    const errors = parsed.problems.filter(({ severity }) => severity === "error").length;
    this.#options.log.info("label rules read", {
      folder: source.path,
      root,
      rules: parsed.rules.count,
      errors,
    });
    this.#faults.report(
      "rules",
      parsed.problems.map((problem: RuleProblem) => toFault(source.shown, problem)),
    );
    this.#options.onRules(parsed);
    this.#firstReading.resolve();
  }
}

function isSameSource(a: LabelFolderSource, b: LabelFolderSource): boolean {
  return a.path === b.path && JSON.stringify(a.options) === JSON.stringify(b.options);
}
