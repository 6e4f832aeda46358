import {
  type Clock,
  type Component,
  createLoopComponent,
  type Logger,
  watchFolder,
  whenAborted,
} from "@berth/runtime";
import { type ConfigSnapshot, type Documents, includeFor, toDocuments } from "./config-files.ts";
import type { KindList } from "./document-kind.ts";
import { type Fault, hasErrors } from "./fault.ts";
import { FaultReport } from "./fault-report.ts";
import type { LocatedDocument } from "./read-documents.ts";

export interface ConfigFollowerOptions {
  /** Configuration files and folders, each watched. Default none: the follower reports nothing. */
  readonly config: readonly { readonly path: string; readonly shown: string }[];
  readonly kinds: KindList;
  /** Documents that stay in force whatever the files contain. */
  readonly ofFlags?: readonly LocatedDocument[];
  readonly clock: Clock;
  readonly log: Logger;
  /** Called with all documents each time the files were read without an error. */
  readonly onDocuments: (documents: Documents) => void;
  /** Called with each fault when it appears, and again only if it was gone in between. */
  readonly onFault: (fault: Fault) => void;
}

/**
 * Watches configuration files. After a change with errors it reports them, and the last good documents stay in force.
 * It counts as started once all files were read for the first time, with or without errors.
 */
export function createConfigFollower(
  options: ConfigFollowerOptions,
): Component & { readonly firstReading: Promise<void> } {
  const { config, kinds, ofFlags, clock, log, onDocuments, onFault } = options;
  const snapshots = new Map<string, ConfigSnapshot>();
  const firstReading = Promise.withResolvers<void>();
  const report = new FaultReport(onFault);
  const reload = (): void => {
    const read = config.flatMap(({ path }) => snapshots.get(path) ?? []);
    if (read.length < config.length) return;
    const { documents, faults } = toDocuments(read, kinds, ofFlags);
    report.report("config", faults);
    if (!hasErrors(faults)) onDocuments(documents);
    firstReading.resolve();
  };
  const watch = ({ path, shown }: Omit<ConfigSnapshot, "snapshot">, signal: AbortSignal): Promise<void> =>
    watchFolder({
      path,
      signal,
      include: includeFor(path),
      clock,
      onChange: (snapshot) => {
        snapshots.set(path, { path, shown, snapshot });
        reload();
      },
      onProblem: ({ problem, path: file }) => log.warn("configuration", { file: file || shown, problem }),
    });
  if (config.length === 0) firstReading.resolve();
  const component = createLoopComponent({
    name: "configuration",
    run: (signal) => Promise.all([whenAborted(signal), ...config.map((entry) => watch(entry, signal))]),
    whenStarted: () => firstReading.promise,
  });
  return { ...component, firstReading: firstReading.promise };
}
