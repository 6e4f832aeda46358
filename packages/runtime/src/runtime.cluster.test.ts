/** A program made by `createRuntime` on a real API server; its parts have tests of their own. */
import { configMaps, leases, type OwnerReference, secrets } from "@berth/kube";
import { eventually, sharedTestCluster } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { createSilentLogger } from "./json-log.ts";
import { keyOf, type ObjectKey } from "./key.ts";
import { createRuntime, type Runtime } from "./runtime.ts";
import { watchFor } from "./source.ts";

const NAMESPACE = "default";

async function aRuntime(name: string, lease?: string): Promise<Runtime> {
  const { client } = await sharedTestCluster();
  return createRuntime({
    name,
    client,
    log: createSilentLogger(),
    healthBindAddress: "127.0.0.1:0",
    metricsBindAddress: "127.0.0.1:0",
    // Nothing is to be cut off because the machine stood still.
    stopLimitMs: 60_000,
    drainLimitMs: 30_000,
    ...(lease && { lease: { namespace: NAMESPACE, name: lease } }),
  });
}

/** Runs until disposed of. */
function started(runtime: Runtime): AsyncDisposable {
  const stop = new AbortController();
  const end = runtime.run(stop.signal);
  return {
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      expect(await end).toEqual({ reason: "stopped", stillRunning: [] });
    },
  };
}

const ready = async (runtime: Runtime): Promise<void> =>
  eventually(async () => {
    const { status } = await fetch(`${runtime.healthUrl}/readyz`);
    expect(status).toBe(200);
  });

describe("a runtime", () => {
  it("asks its controller by the objects it is for, by those they own, and by further sources", async () => {
    const { client } = await sharedTestCluster();
    const runtime = await aRuntime("asked");
    const asked = new Set<string>();
    runtime.addController({
      name: "asked",
      for: configMaps,
      predicate: ({ object }) => object.metadata?.name?.startsWith("rt-") ?? false,
      owns: [secrets],
      sources: [
        watchFor({
          informer: runtime.informer(secrets),
          map: ({ object: { metadata } }): readonly ObjectKey[] =>
            metadata?.name === "rt-other"
              ? [keyOf(runtime.cluster, { metadata: { name: "by-source" } })]
              : [],
        }),
      ],
      reconcile: (key) => {
        asked.add(`${key.namespace}/${key.name}`);
        return Promise.resolve(undefined);
      },
    });
    await using _running = started(runtime);
    await ready(runtime);

    const metadata = { namespace: NAMESPACE };
    await client.create(configMaps, { metadata: { ...metadata, name: "rt-self" } });
    const owner: OwnerReference = {
      apiVersion: "v1",
      kind: "ConfigMap",
      name: "not-there",
      uid: "3",
      controller: true,
    };
    await client.create(secrets, { metadata: { ...metadata, name: "rt-owned", ownerReferences: [owner] } });
    await client.create(secrets, { metadata: { ...metadata, name: "rt-other" } });
    await eventually(() =>
      expect([...asked].sort()).toEqual(["/by-source", "default/not-there", "default/rt-self"]),
    );
    const { body } = await fetch(`${runtime.metricsUrl}/metrics`).then(async (answer) => ({
      body: await answer.text(),
    }));
    expect(body).toContain('reconcile_total{controller="asked",result="success"}');
  });

  it("runs on each replica what is not elected, and on the leader only what is; both are ready", async () => {
    const { client } = await sharedTestCluster();
    await client.create(configMaps, { metadata: { namespace: NAMESPACE, name: "rt-replicas" } });
    const seen: string[] = [];
    const replica = async (name: string): Promise<Runtime> => {
      const runtime = await aRuntime(name, "rt-replicas");
      for (const elected of [true, false]) {
        runtime.addController({
          name: elected ? "one" : "each",
          for: configMaps,
          elected,
          reconcile: (key) => {
            if (key.name === "rt-replicas") seen.push(`${name} ${elected ? "elected" : "always"}`);
            return Promise.resolve(undefined);
          },
        });
      }
      return runtime;
    };
    {
      const first = await replica("a");
      await using _first = started(first);
      await eventually(() => expect(seen).toContain("a elected"));
      const second = await replica("b");
      await using _second = started(second);
      await ready(second);
      await eventually(() => expect(seen).toContain("b always"));
      const lease = await client.get(leases, { namespace: NAMESPACE, name: "rt-replicas" });
      expect(lease.spec?.holderIdentity).toMatch(/^a-/);
      expect(seen.toSorted()).toEqual(["a always", "a elected", "b always"]);
    }
    const lease = await client.get(leases, { namespace: NAMESPACE, name: "rt-replicas" });
    expect(lease.spec?.holderIdentity).toBe("");
  });
});
