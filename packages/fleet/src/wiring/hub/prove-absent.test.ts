import type { ListOptions } from "@berth/kube";
import { clusterName, createVirtualClock } from "@berth/runtime";
import { expect, it } from "vitest";
import { instances } from "../../api/workload.ts";
import { HubMemory } from "./memory.ts";
import { isProvenAbsent } from "./prove-absent.ts";

const cluster = clusterName("a");
const key = { cluster, namespace: "ns-U", name: "w-us-dfw-0" };
const context = { signal: new AbortController().signal };

function reading(...uids: readonly string[]) {
  const memory = new HubMemory(createVirtualClock());
  const asked: (string | undefined)[] = [];
  const list = (_: object, { namespace, fieldSelector }: ListOptions<never>) => {
    asked.push(`${namespace} ${fieldSelector}`);
    return Promise.resolve({ metadata: {}, items: uids.map((uid) => ({ metadata: { uid } })) });
  };
  const isAbsent = (uid: string) => isProvenAbsent(memory, { list } as never, instances, key, uid, context);
  return { memory, asked, isAbsent };
}

it.each<[string, readonly string[], boolean]>([
  ["is not there", [], true],
  ["has another one under its name", ["other"], true],
  ["is there, and its watch is behind", ["u"], false],
])("what a view lacks %s", async (_, uids, expected) => {
  const { isAbsent, asked } = reading(...uids);
  expect(await isAbsent("u")).toBe(expected);
  expect(asked).toEqual(["ns-U metadata.name=w-us-dfw-0"]);
});

it("what was proven, or seen to be deleted, is not read again", async () => {
  const { isAbsent, asked, memory } = reading();
  memory.absent(cluster, "deleted");
  expect([await isAbsent("u"), await isAbsent("u"), await isAbsent("deleted")]).toEqual([true, true, true]);
  expect(asked).toHaveLength(1);
});
