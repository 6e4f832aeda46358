/** `berth snapshot`: what `plan` and `explain` read of a cluster, as a file that they read in place of it. */
import { randomUUID } from "node:crypto";
import { rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { SNAPSHOT_FORMAT, type Snapshot } from "@berth/host";
import { explainedPods, readPodNames } from "@berth/placement";
import type { CommandDeps } from "../command-deps.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { explainedNodes, openRecording, readAllExplained } from "../session.ts";
import { type PlanOptions, planAll } from "./plan.ts";

export interface SnapshotOptions extends Omit<PlanOptions, "nodes" | "output" | "exitCode" | "try"> {
  readonly file: string;
}

export async function snapshot(options: SnapshotOptions, deps: CommandDeps): Promise<ExitCode> {
  await using session = await openRecording(options, deps);
  await using owned = new AsyncDisposableStack();
  const takenAt = new Date(session.clock.now()).toISOString();
  await planAll({ ...options, nodes: [] }, { session, owned, deps });
  await Promise.all([
    readAllExplained(explainedNodes(), session),
    readAllExplained(explainedPods, session),
    readPodNames(session),
  ]);
  const taken: Snapshot = {
    format: SNAPSHOT_FORMAT,
    takenAt,
    server: session.client.server,
    ...session.taken(),
  };
  const file = path.resolve(deps.folder, options.file);
  await replaceFile(file, `${JSON.stringify(taken)}\n`);
  const objects = taken.views.reduce((sum, view) => sum + view.objects.length, 0);
  deps.stdout.write(`${options.file}: ${taken.views.length} views, ${objects} objects\n`);
  return exitCodes.done;
}

/** No other user may read it: it tells what runs in the cluster. A command that is ended leaves the file as it was. */
async function replaceFile(file: string, text: string): Promise<void> {
  const next = `${file}.${randomUUID()}`;
  try {
    await writeFile(next, text, { mode: 0o600, flag: "wx" });
    await rename(next, file);
  } catch (error) {
    await rm(next, { force: true });
    throw new CommandError(
      `${file} cannot be written: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}
