/** What a real API server answers to intents about objects that are not there, or that change all the time. */
import { configMaps, isApiError, type KubeObject, namespaces } from "@berth/kube";
import { createSilentLogger, systemClock } from "@berth/runtime";
import { eventually, sharedTestCluster } from "@berth/testcluster";
import { expect, it } from "vitest";
import { CarryOut } from "./carry-out.ts";
import type { Change } from "./intent.ts";

const context = { signal: new AbortController().signal, log: createSilentLogger() };

it("creates an object, deletes it whatever changed meanwhile, and rests where its namespace takes none", async () => {
  const { client } = await sharedTestCluster();
  const told: string[] = [];
  const events = { record: ({ note }: { note: string }) => void told.push(note) };
  const carryOut = new CarryOut({ client, clock: systemClock, events, action: "Test" });
  const subject = { resource: namespaces, object: await client.get(namespaces, { name: "default" }) };
  const send = async (change: Change, seen?: KubeObject, key = "k"): Promise<number | undefined> => {
    const intent = { ...change, reason: "R", message: "m", on: { resource: configMaps, seen } };
    return (await carryOut.send(key, subject, [intent], context)).recheckAfterMs;
  };
  const of = { namespace: "default", name: "carried-out" };
  const created = await (async () => {
    expect(await send({ do: "create", body: { metadata: of } })).toBeUndefined();
    return client.get(configMaps, of);
  })();
  expect(await send({ do: "create", body: { metadata: of } }, undefined, "restarted")).toBe(1_000);
  await client.patch(configMaps, of, { type: "merge", body: { data: { a: "b" } } });
  expect(await send({ do: "delete" }, created, "other")).toBe(1_000);
  await send({ do: "delete", bound: "uid" }, created, "another");
  await expect(client.get(configMaps, of)).rejects.toSatisfy((error) => isApiError(error, "notFound"));

  const missing = { namespace: "carried-out-missing", name: "a" };
  expect(await send({ do: "create", body: { metadata: missing } })).toBe(30_000);
  const name = "carried-out-terminating";
  await client.create(namespaces, { metadata: { name } });
  await client.delete(namespaces, { name });
  await eventually(async () => {
    const { metadata } = await client.get(namespaces, { name });
    expect(metadata?.deletionTimestamp).toBeDefined();
  });
  const terminating = { namespace: name, name: "a" };
  expect(await send({ do: "create", body: { metadata: terminating } }, undefined, "third")).toBe(30_000);
  expect(told).toEqual([
    expect.stringContaining('it is not created: create configmaps "a" in "carried-out-missing": not found'),
    expect.stringContaining("being terminated"),
  ]);
});
