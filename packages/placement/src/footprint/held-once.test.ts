import { LeftOut } from "@berth/host";
import type { KubeClient, KubeObject, List } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { eachOwner } from "./held-once.ts";

describe("the owners that are held", () => {
  it("are told with their names, wherever they are", async () => {
    const pages = async function* (): AsyncIterable<List<KubeObject>> {
      await Promise.resolve();
      const items = [{ metadata: { namespace: "shop", name: "p" } }, { metadata: { name: "wide" } }];
      yield { items, metadata: {} };
    };
    const { signal } = new AbortController();
    const run = { client: { pages } as unknown as KubeClient, leftOut: new LeftOut(), signal };
    const resource = { group: "example.com", version: "v1", resource: "pools" };
    const told: unknown[] = [];
    await eachOwner({ resource }, run, ({ text, resource: { namespaced } }) => told.push([text, namespaced]));
    expect(told).toEqual([
      ["pools.example.com shop/p", true],
      ["pools.example.com wide", false],
    ]);
  });
});
