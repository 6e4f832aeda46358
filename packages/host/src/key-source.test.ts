import { clusterName, type ObjectKey } from "@berth/runtime";
import { expect, it } from "vitest";
import { createKeySource } from "./key-source.ts";

it("keys that it does not take yet are neither asked for alone nor with all", () => {
  const [read, unread] = ["read", "unread"].map(
    (name): ObjectKey => ({ cluster: clusterName(name), namespace: "", name: "a" }),
  ) as [ObjectKey, ObjectKey];
  const taken = new Set([read.cluster]);
  const source = createKeySource(
    () => [read, unread],
    ({ cluster }) => taken.has(cluster),
  );
  const asked: string[] = [];
  using _started = source.start(({ cluster }) => asked.push(cluster));
  source.ask([unread]);
  expect(asked).toEqual(["read"]);
  taken.add(unread.cluster);
  source.askAll();
  expect(asked).toEqual(["read", "read", "unread"]);
});
