import { execFile } from "node:child_process";
import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { aNode, sharedTestCluster } from "@berth/testcluster";
import { expect, it } from "vitest";
import { nodes } from "./generated/resources.ts";

const run = promisify(execFile);
const PACKAGE = join(import.meta.dirname, "..");

it("the example of the README runs as it is printed", async () => {
  const readme = await readFile(join(PACKAGE, "README.md"), "utf8");
  const [, example = ""] = /```ts\n(.*?)```/s.exec(readme) ?? [];
  const cluster = await sharedTestCluster();
  for (const name of ["n1", "n2"]) await cluster.client.create(nodes, aNode(name).build());
  await using folder = await mkdtempDisposable(join(tmpdir(), "berth-readme-"));
  const kubeconfig = join(folder.path, "config");
  await writeFile(kubeconfig, cluster.kubeconfig());
  const options = ["--conditions=berth-source", "--input-type=module-typescript", "--eval", example];
  const { stdout } = await run(process.execPath, options, { cwd: PACKAGE, env: { KUBECONFIG: kubeconfig } });
  expect(stdout).toBe("labelled n1\nlabelled n2\n");
  const { items } = await cluster.client.list(nodes, { labelSelector: "example.com/seen=true" });
  expect(items).toHaveLength(2);
});
