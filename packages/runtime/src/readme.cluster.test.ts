import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { leases, nodes, pods } from "@berth/kube";
import { aNode, aPod, eventually, startTestCluster } from "@berth/testcluster";
import { describe, expect, it } from "vitest";

const PACKAGE = join(import.meta.dirname, "..");

/** The controller of the README as a process of its own, killed on disposal. */
async function startExample(
  kubeconfig: string,
): Promise<AsyncDisposable & { readonly process: ChildProcess }> {
  const readme = await readFile(join(PACKAGE, "README.md"), "utf8");
  const [, example = ""] = /```ts\n(.*?)```/s.exec(readme) ?? [];
  const options = ["--conditions=berth-source", "--input-type=module-typescript", "--eval", example];
  const child = spawn(process.execPath, options, {
    cwd: PACKAGE,
    env: { KUBECONFIG: kubeconfig },
    stdio: ["ignore", "ignore", "inherit"],
  });
  const gone = once(child, "exit");
  return {
    process: child,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await gone;
    },
  };
}

describe("the controller of the README", () => {
  it("does what it says, as it is printed, and ends when told", async () => {
    await using cluster = await startTestCluster();
    const { client } = cluster;
    for (const name of ["n1", "n2"]) await client.create(nodes, aNode(name).build());
    await using folder = await mkdtempDisposable(join(tmpdir(), "berth-readme-"));
    const kubeconfig = join(folder.path, "config");
    await writeFile(kubeconfig, cluster.kubeconfig());
    await using example = await startExample(kubeconfig);

    const counts = async (): Promise<readonly (string | undefined)[]> => {
      const { items } = await client.list(nodes);
      return items.map(({ metadata }) => metadata?.annotations?.["example.com/pods"]);
    };
    await eventually(async () => expect(await counts()).toEqual(["0", "0"]));
    for (const name of ["p1", "p2"]) await client.create(pods, aPod(name).on("n2").build());
    await eventually(async () => expect(await counts()).toEqual(["0", "2"]));
    await client.delete(pods, { namespace: "default", name: "p1" }, { gracePeriodSeconds: 0 });
    await eventually(async () => expect(await counts()).toEqual(["0", "1"]));

    example.process.kill("SIGTERM");
    expect(await once(example.process, "exit")).toEqual([0, null]);
    const lease = await client.get(leases, { namespace: "default", name: "pod-counter" });
    expect(lease.spec?.holderIdentity).toBe("");
  });
});
