/** The capability in the README of host, run as it is printed. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import {
  type CustomResourceDefinition,
  customResourceDefinitions,
  defineResource,
  type KubeObject,
  namespaces,
} from "@berth/kube";
import { eventually, restoreSharedTestClusters, sharedTestCluster } from "@berth/testcluster";
import { afterEach, expect, it } from "vitest";
import { startProgram } from "./program.ts";

const folder = join(import.meta.dirname, "../packages/host");
const kind = defineResource<KubeObject & { readonly spec?: object }>({
  group: "example.com",
  version: "v1",
  plural: "namespacelabels",
  kind: "NamespaceLabels",
  namespaced: false,
});

afterEach(() => restoreSharedTestClusters());

it("the capability in the README of host has at most 60 lines, plans and explains, and keeps what a document says", async () => {
  const readme = await readFile(join(folder, "README.md"), "utf8");
  const [capability = "", program = ""] = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map(
    ([, text]) => text,
  );
  expect(capability.trimEnd().split("\n").length).toBeLessThanOrEqual(60);
  const cluster = await sharedTestCluster();
  const { client } = cluster;
  const says = async (...args: readonly string[]): Promise<string> => {
    await using command = await startProgram(cluster, { text: `${capability}${program}`, folder, args });
    expect(await command.ended).toBe(0);
    return command.output;
  };
  expect(await says("plan")).toBe("The API server does not know the kind NamespaceLabels: apply its CRD\n");
  await client.create(customResourceDefinitions, JSON.parse(await says("crd")) as CustomResourceDefinition);
  await eventually(() =>
    client.create(kind, {
      metadata: { name: "a" },
      spec: { namespaces: ["default"], labels: { team: "a" } },
    }),
  );
  expect(await says("plan")).toBe("default: patch: LabelsDiffer: team\n");
  expect(await says("explain", "kube-system")).toBe("kube-system: nothing to change\n");
  await using running = await startProgram(cluster, { text: `${capability}${program}`, folder });
  const found = async (): Promise<unknown> =>
    (await client.get(namespaces, { name: "default" })).metadata?.labels;
  await eventually(async () => expect(await found()).toMatchObject({ team: "a" }));
  const ready = [{ type: "Ready", status: "True", reason: "InForce", observedGeneration: 1 }];
  await eventually(async () =>
    expect(await client.get(kind, { name: "a" })).toMatchObject({ status: { conditions: ready } }),
  );
  await client.patch(
    namespaces,
    { name: "default" },
    { type: "merge", body: { metadata: { labels: { team: "b" } } } },
  );
  await eventually(async () => expect(await found()).toMatchObject({ team: "a" }));
  expect(await says("plan")).toBe("");
  expect(await says("explain", "default")).toBe("default: nothing to change\n");
  expect((await running.stop()).exit).toBe(0);
});
