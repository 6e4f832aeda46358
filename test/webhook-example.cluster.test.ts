/** The program in the README of admission, run as it is printed. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { namespaces, pods, validatingWebhookConfigurations } from "@berth/kube";
import {
  aPod,
  eventually,
  findFreePort,
  restoreSharedTestClusters,
  sharedTestCluster,
} from "@berth/testcluster";
import { afterEach, expect, it } from "vitest";
import { startProgram } from "./program.ts";

const folder = join(import.meta.dirname, "../packages/runtime");

afterEach(() => restoreSharedTestClusters());

it("the program in the README of admission refuses Pods, puts its webhook back, and ends in order", async () => {
  const readme = await readFile(join(folder, "src/admission/README.md"), "utf8");
  const [, text = ""] = /^```ts\n(.*?)^```$/ms.exec(readme) ?? [];
  const cluster = await sharedTestCluster();
  const { client } = cluster;
  await client.create(namespaces, { metadata: { name: "guards" } });
  const at = `127.0.0.1:${await findFreePort()}`;
  await using running = await startProgram(cluster, { text, folder, args: [at, at] });
  const isRefused = (): Promise<void> =>
    eventually(() =>
      expect(client.create(pods, aPod("a").build(), { dryRun: true })).rejects.toThrow(
        "a Pod needs the label team",
      ),
    );
  await isRefused();
  await client.create(pods, aPod("b").labelled({ team: "x" }).build(), { dryRun: true });
  await client.delete(validatingWebhookConfigurations, { name: "team-guard" });
  await isRefused();
  expect((await running.stop()).exit).toBe(0);
});
