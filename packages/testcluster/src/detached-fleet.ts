/** Several clusters on this machine, a control plane each, so that one can be frozen, stopped or put back alone. */
import { readdir } from "node:fs/promises";
import path from "node:path";
import type { ComponentName } from "./assets.ts";
import { readRecord } from "./cluster-record.ts";
import {
  type DetachedCluster,
  type DetachedClusterOptions,
  type DetachedProgress,
  startDetachedCluster,
  stopDetachedCluster,
} from "./detached.ts";
import { type FleetPlanes, startPlanes } from "./fleet-planes.ts";

/** Where a fleet lives, and its planes. */
export interface DetachedFleetOptions extends FleetPlanes, Pick<DetachedClusterOptions, "env" | "signal"> {
  /** The folder of a plane is the one of its name in this folder. */
  readonly dir: string;
  readonly onProgress?: (plane: string, progress: DetachedProgress) => void;
}

/**
 * Starts all planes side by side. When one does not start, none is left running.
 *
 * @throws what `startDetachedCluster` throws, and an Error for a name that no Cell could have.
 */
export async function startDetachedFleet(
  options: DetachedFleetOptions,
): Promise<ReadonlyMap<string, DetachedCluster>> {
  const { dir, onProgress, env, signal } = options;
  await using undo = new AsyncDisposableStack();
  const clusters = await startPlanes(options, async (name, plane) => {
    const of = { ...plane, dir: path.join(dir, name) };
    const cluster = await startDetachedCluster({
      ...of,
      ...(env && { env }),
      ...(signal && { signal }),
      ...(onProgress && { onProgress: (progress) => onProgress(name, progress) }),
    });
    undo.defer(async () => void (await stopDetachedCluster(of)));
    return cluster;
  });
  undo.move();
  return clusters;
}

/** The folders of clusters that run in this folder or right below it, by name; `""` is the folder itself. */
export async function detachedClustersIn(dir: string): Promise<ReadonlyMap<string, string>> {
  const entries = await readdir(dir, { withFileTypes: true }).catch(() => []);
  const names = entries.flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
  const found = new Map<string, string>();
  for (const name of ["", ...names.toSorted()]) {
    const folder = path.join(dir, name);
    if ((await readRecord(folder)) !== undefined) found.set(name, folder);
  }
  return found;
}

/** Ends every cluster in the folder and right below it. @returns what was ended of each, by name. */
export async function stopDetachedClusters(
  dir: string,
): Promise<ReadonlyMap<string, readonly ComponentName[]>> {
  const stopped = new Map<string, readonly ComponentName[]>();
  for (const [name, folder] of await detachedClustersIn(dir))
    stopped.set(name, await stopDetachedCluster({ dir: folder }));
  return stopped;
}
