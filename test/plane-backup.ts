/** Backups of a plane, as those of etcd are: resourceVersions go back as well. */
import { ok } from "node:assert";
import { cp, rm } from "node:fs/promises";
import path from "node:path";
import type { TestCluster } from "@berth/testcluster";

const DATA = "etcd";

/** @returns puts the plane back to what it is now, as often as it is called. Resolves when its API server is ready. */
export async function backUp(plane: TestCluster, folder: string): Promise<() => Promise<void>> {
  const [data, copy] = [path.join(plane.folder, DATA), path.join(folder, path.basename(plane.folder))];
  const pid = plane.pidOf("etcd");
  ok(pid !== undefined, "etcd does not run");
  // What a frozen process has written is what a killed one would leave, which etcd reads again.
  process.kill(pid, "SIGSTOP");
  try {
    await cp(data, copy, { recursive: true });
  } finally {
    process.kill(pid, "SIGCONT");
  }
  return () => replaceData(plane, () => cp(copy, data, { recursive: true }));
}

/** The plane is made anew, with the address and the certificates that it had. */
export function rebuild(plane: TestCluster): Promise<void> {
  return replaceData(plane, () => Promise.resolve());
}

async function replaceData(plane: TestCluster, fill: () => Promise<void>): Promise<void> {
  for (const name of ["kube-apiserver", "etcd"] as const) await plane.stopComponent(name, "SIGKILL");
  await rm(path.join(plane.folder, DATA), { recursive: true });
  await fill();
  for (const name of ["etcd", "kube-apiserver"] as const) await plane.startComponent(name);
}
