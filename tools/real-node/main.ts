/**
 * `make real-node`: Berth on nodes that run processes. This half checks and prepares what is needed, then runs the
 * other half (`inside.ts`) in namespaces of its own. When they end, the kernel ends everything in them.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { eventually, findPrograms, findRegistry } from "@berth/testcluster";
import { shell } from "../../scripts/run.ts";
import { missingPrerequisites } from "./prerequisites.ts";
import { preparePrograms } from "./programs.ts";

const exitCodes = { failed: 1, missing: 69 } as const;

/** The mounted hierarchies of cgroups: v1 has several. */
const HIERARCHIES = "$(findmnt --types cgroup,cgroup2 --noheadings --output TARGET --list)";

/** Makes cgroups for the containers of each node, and enters one for the programs: all processes of the run are in them. */
const ENTER = `
for hierarchy in ${HIERARCHIES}; do
  own="$hierarchy/$NAME"
  for cgroup in "$own" "$own/programs" "$own/node-1" "$own/node-2" "$own/node-3" "$own/node-4"; do
    mkdir "$cgroup"
    # A cpuset of v1 begins without processors.
    for file in cpuset.cpus cpuset.mems; do
      [ ! -w "$hierarchy/$file" ] || cat "$hierarchy/$file" > "$cgroup/$file"
    done
  done
  echo $$ > "$own/programs/cgroup.procs"
done
exec "$@"`;

/** A cgroup with a process cannot be removed. So this proves that no process is left, nor a namespace of one. */
const leave = (name: string): Promise<string> =>
  shell(`
    for hierarchy in ${HIERARCHIES}; do
      [ ! -e "$hierarchy/${name}" ] || find "$hierarchy/${name}" -depth -type d -exec rmdir {} \\;
      [ ! -e "$hierarchy/${name}" ]
    done`);

function end(code: number, ...lines: readonly string[]): never {
  for (const line of lines) console.error(`real-node: ${line}`);
  process.exit(code);
}

const missing = await missingPrerequisites();
if (missing.length > 0) end(exitCodes.missing, ...missing);
console.log("Preparing the programs; the first time takes some minutes");
const programs = await preparePrograms().catch((error: Error) => end(exitCodes.missing, error.message));
await findPrograms(["kube-apiserver"], { env: process.env });
await findRegistry({ env: process.env });

const folder = await mkdtemp(join(tmpdir(), "berth-real-node-"));
const name = basename(folder);
const unshare = ["unshare", "--mount", "--net", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc"];
const inside = [process.execPath, "--conditions=berth-source", join(import.meta.dirname, "inside.ts")];
const what = ["nodes", "fleet"].find((it) => process.argv.includes(`--${it}`)) ?? "cluster";
const command = [...unshare, ...inside, JSON.stringify({ folder, programs, what })];
const child = spawn("/bin/sh", ["-euc", ENTER, "sh", ...command], {
  env: { ...process.env, NAME: name },
  // The end of its standard input tells it to stop. So Ctrl-C reaches this process alone, and its death is noticed too.
  stdio: ["pipe", "inherit", "inherit"],
  detached: true,
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.stdin.end());
if (what === "nodes") {
  const enter = `nsenter --target ${child.pid} --mount --net env KUBECONFIG=${join(folder, "cluster.kubeconfig")} bash`;
  console.log(`For a shell beside the nodes: ${enter}`);
}
const [code] = (await once(child, "exit")) as [number | null];

await eventually(() => leave(name), { timeoutMs: 15_000, everyMs: 500 });
await rm(folder, { recursive: true, force: true });
const mounts = (await readFile("/proc/self/mountinfo", "utf8"))
  .split("\n")
  .filter((line) => line.includes(name));
console.log(
  `Left behind: no process (their cgroups could be removed), no namespace, ${mounts.length} mounts, no file`,
);
process.exit(mounts.length > 0 ? exitCodes.failed : (code ?? exitCodes.failed));
