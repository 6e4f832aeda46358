/** What the guard of a client does on a real API server. Its rules are in `guard/request-gates.model.test.ts`. */
import { configMaps, customResourceDefinitions, defineResource, leases } from "@berth/kube";
import { eventually, sharedTestCluster } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { type Clock, systemClock } from "./clock.ts";
import { guardClient } from "./guarded-client.ts";
import { createSilentLogger } from "./json-log.ts";
import { keyOf } from "./key.ts";
import type { Logger } from "./log.ts";
import { createRuntime } from "./runtime.ts";
import { grant } from "./testing/grant.ts";

const USER = "guarded";
const silent = createSilentLogger();

const cluster = await sharedTestCluster();

describe("a permission that is taken away and given back", () => {
  it("I-15 I-16 costs few requests and two lines in the log, and all objects are written soon after", async () => {
    const { client } = cluster;
    const names = Array.from({ length: 100 }, (_, at) => `${USER}-${at}`);
    const lines: string[] = [];
    const keep = (message: string): void => void (message.includes("API server") && lines.push(message));
    const log: Logger = {
      ...silent,
      info: keep,
      warn: keep,
      error: (text) => void lines.push(text),
      with: () => log,
    };
    let requests = 0;
    await using own = cluster.connect({
      user: await cluster.user(USER),
      onAnswer: ({ verb }) => void (verb === "patch" && requests++),
    });
    await using _reads = await grant(cluster, USER, configMaps, "list", "watch", "get");
    await using stack = new AsyncDisposableStack();
    stack.defer(() => client.deleteCollection(configMaps, { namespace: "default", labelSelector: USER }));
    const runtime = createRuntime({ name: USER, client: own, log });
    runtime.informer(configMaps, { scope: { labelSelector: USER } });
    runtime.addController({
      name: USER,
      for: configMaps,
      reconcile: async ({ namespace, name }) => {
        const body = { data: { done: "true" } };
        await runtime.client.patch(configMaps, { namespace, name }, { type: "merge", body });
        return undefined;
      },
    });
    for (const name of names)
      await client.create(
        configMaps,
        { metadata: { name, labels: { [USER]: "" } } },
        { namespace: "default" },
      );
    const stop = new AbortController();
    const end = runtime.run(stop.signal);
    await eventually(() => expect(lines).toHaveLength(1));
    // Those that were under way together, and the few of the first seconds.
    expect(requests).toBeLessThan(16 + 10);
    expect(runtime.client.whyRefused(["configmaps"])?.message).toContain("cannot patch");
    await using _writes = await grant(cluster, USER, configMaps, "patch");
    const done = async (): Promise<void> => {
      const { items } = await client.list(configMaps, { namespace: "default", labelSelector: USER });
      expect(items.filter(({ data }) => data?.["done"] === "true")).toHaveLength(names.length);
    };
    await eventually(done, { timeoutMs: 30_000 });
    await eventually(() => expect(lines).toHaveLength(2));
    stop.abort();
    expect(await end).toMatchObject({ reason: "stopped" });
  });
});

describe("a leader that stood still for longer than its lease", () => {
  it.each([
    ["the lease of the process", undefined],
    ["a lease of its controllers, while another process has that of the process", "frozen-apart"],
  ])(
    "I-17 C21 writes nothing when it goes on, not even before a timer has told it: %s",
    async (_which, lease) => {
      const { client } = cluster;
      const of = { namespace: "default", name: `frozen-${lease ?? "own"}` };
      if (lease !== undefined)
        await client.create(leases, {
          metadata: of,
          spec: { holderIdentity: "another", leaseDurationSeconds: 3_600 },
        });
      let frozenMs = 0;
      const clock: Clock = { ...systemClock, monotonic: () => systemClock.monotonic() + frozenMs };
      const runtime = createRuntime({ name: "frozen", client, lease: of, clock, log: silent });
      const failures: unknown[] = [];
      const controller = runtime.addController({
        name: "frozen",
        ...(lease && { lease }),
        for: configMaps,
        predicate: ({ type, object }) => type === "added" && object.metadata?.name === of.name,
        reconcile: async (key) => {
          const body = { data: { at: String(clock.monotonic()) } };
          const patch = runtime.client.patch(configMaps, key, { type: "merge", body });
          await patch.catch((error: unknown) => failures.push(error));
          return undefined;
        },
      });
      await client.create(configMaps, { metadata: of });
      await using stack = new AsyncDisposableStack();
      stack.defer(() => client.delete(configMaps, of));
      const stop = new AbortController();
      const end = runtime.run(stop.signal);
      const written = await eventually(async () => {
        const object = await client.get(configMaps, of);
        expect(object.data).toBeDefined();
        return object;
      });
      frozenMs = 12_000;
      controller.enqueue(keyOf(runtime.cluster, written));
      await eventually(() => expect(failures).toMatchObject([{ failure: { kind: "aborted" } }]));
      expect((await client.get(configMaps, of)).data).toEqual(written.data);
      stop.abort();
      await end;
    },
  );
});

it("a user without any right learns that a custom resource is served", async () => {
  const group = "guarded.example.com";
  const late = defineResource({ group, version: "v1", plural: "lates", kind: "Late", namespaced: false });
  await using own = cluster.connect({ user: await cluster.user("without-rights") });
  const guarded = guardClient(own, { clock: systemClock, log: silent });
  const { signal } = new AbortController();
  const waiting = guarded.whenServed(late, signal);
  await cluster.client.create(customResourceDefinitions, {
    metadata: { name: `lates.${group}` },
    spec: {
      group,
      scope: "Cluster",
      names: { plural: "lates", kind: "Late" },
      versions: [
        { name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object" } } },
      ],
    },
  });
  await waiting;
  await expect(guarded.list(late)).rejects.toMatchObject({ failure: { kind: "forbidden" } });
  expect(await cluster.client.list(late)).toMatchObject({ items: [] });
});
