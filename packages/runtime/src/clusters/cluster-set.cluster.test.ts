/** A set of two real clusters: one of them is refused and frozen, and credentials change. */
import { bearerToken, type ConfigMap, configMaps, parseKubeconfig, selfSubjectReviews } from "@berth/kube";
import { eventually, sharedTestCluster, startTestCluster, type TestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemClock } from "../clock.ts";
import { createSilentLogger } from "../json-log.ts";
import { clusterName, type ObjectKey } from "../key.ts";
import { createMetricsRegistry } from "../prometheus.ts";
import { type ClusterSet, createClusterSet } from "./cluster-set.ts";
import type { FleetView } from "./fleet-view.ts";

const [dfw, ord] = [clusterName("dfw"), clusterName("ord")] as const;
const scope = { namespace: "default", labelSelector: "fleet=yes" };

let here: TestCluster;
let there: TestCluster;
beforeAll(async () => {
  [here, there] = await Promise.all([sharedTestCluster(), startTestCluster()]);
});
afterAll(() => there[Symbol.asyncDispose]());

interface Started extends AsyncDisposable {
  readonly set: ClusterSet;
  readonly view: FleetView<ConfigMap>;
  /** Keys reconciled, and when: milliseconds of the clock. */
  readonly done: Map<string, number>;
  readonly enqueue: (key: ObjectKey) => void;
}

async function start(): Promise<Started> {
  const set = createClusterSet({
    name: "cells",
    clock: systemClock,
    log: createSilentLogger(),
    metrics: createMetricsRegistry({ processMetrics: false }),
    reportingController: "test",
    reportingInstance: "test",
  });
  const view = set.view<ConfigMap>({ resource: configMaps, scope, project: (it) => it });
  const done = new Map<string, number>();
  const controller = set.controller({
    name: "touch",
    reconcile: async ({ cluster, ...of }, { signal }) => {
      const patch = { type: "merge", body: { data: { touched: "yes" } } } as const;
      await set.get(cluster)?.client.patch(configMaps, of, patch, { signal });
      done.set(`${cluster} ${of.name}`, systemClock.monotonic());
      return undefined;
    },
  });
  const stopping = new AbortController();
  const runs = [await set.start(stopping.signal), await controller.start(stopping.signal)];
  for (const [name, cluster] of [
    [dfw, here],
    [ord, there],
  ] as const)
    set.join(name, { to: (await parseKubeconfig(cluster.kubeconfig(), { origin: name })).connect });
  return {
    set,
    view,
    done,
    enqueue: (key) => controller.enqueue(key),
    [Symbol.asyncDispose]: async () => {
      stopping.abort();
      await Promise.all(runs.map(({ ended }) => ended));
    },
  };
}

const create = (cluster: TestCluster, name: string): Promise<ConfigMap> =>
  cluster.client.create(configMaps, {
    metadata: { name, namespace: scope.namespace, labels: { fleet: "yes" } },
  });

const untilState = (view: FleetView<ConfigMap>, of: typeof dfw, state: string): Promise<void> =>
  eventually(() => expect(view.state(of)).toBe(state), { timeoutMs: 30_000 });

it("a cluster that is frozen, or refused, delays no other, and catches up at once when it returns", async () => {
  await using fleet = await start();
  const { set, view, done, enqueue } = fleet;
  await Promise.all([untilState(view, dfw, "synced"), untilState(view, ord, "synced")]);
  await Promise.all([create(here, "a"), create(there, "a")]);
  await eventually(() => expect(view.get({ cluster: ord, namespace: "default", name: "a" })).toBeDefined());
  const pid = there.pidOf("kube-apiserver") ?? Number.NaN;
  for (const [cause, lose, restore] of [
    ["Silent", () => process.kill(pid, "SIGSTOP"), () => process.kill(pid, "SIGCONT")],
    [
      "Refused",
      () => there.stopComponent("kube-apiserver", "SIGKILL"),
      () => there.startComponent("kube-apiserver"),
    ],
  ] as const) {
    const lostAt = systemClock.monotonic();
    await lose();
    for (let index = 0; index < 6; index++)
      enqueue({ cluster: ord, namespace: "default", name: index === 0 ? "a" : `none-${index}` });
    enqueue({ cluster: dfw, namespace: "default", name: "a" });
    await eventually(() => expect(done.get("dfw a") ?? 0).toBeGreaterThan(lostAt));
    expect(systemClock.monotonic() - lostAt).toBeLessThan(4_000);
    // Time in which this process stands still does not count.
    await eventually(() => expect(set.get(ord)?.reach).toMatchObject({ is: "no", cause }), {
      timeoutMs: 60_000,
    });
    expect([view.state(ord), view.state(dfw)]).toEqual(["stale", "synced"]);
    expect(view.get({ cluster: ord, namespace: "default", name: "a" })).toBeDefined();
    await restore();
    await untilState(view, ord, "synced");
    await eventually(() => expect(done.get("ord a") ?? 0).toBeGreaterThan(lostAt));
  }
});

it("a credential that is replaced takes effect at once, and a watch goes on", async () => {
  await using fleet = await start();
  const { set, view } = fleet;
  await Promise.all([untilState(view, dfw, "synced"), untilState(view, ord, "synced")]);
  const states: string[] = [];
  using _ = view.subscribe({ onState: (of) => states.push(`${of} ${view.state(of)}`) });
  const user = await here.user("berth", ["system:masters"]);
  const access = { to: (await parseKubeconfig(here.kubeconfig({ user }), { origin: "dfw" })).connect };
  const whoAmI = async (): Promise<string | undefined> =>
    (await set.get(dfw)?.client.create(selfSubjectReviews, {}))?.status?.userInfo?.username;
  expect(await whoAmI()).toBe("admin");
  set.join(dfw, access);
  expect(await whoAmI()).toBe("berth");
  await create(here, "swapped");
  await eventually(() =>
    expect(view.get({ cluster: dfw, namespace: "default", name: "swapped" })).toBeDefined(),
  );
  expect(states).toEqual([]);
  set.join(dfw, { to: { ...access.to, credential: bearerToken("wrong") } });
  await eventually(() => expect(set.get(dfw)?.reach).toMatchObject({ is: "no", cause: "Unauthorized" }));
  set.join(dfw, access);
  await untilState(view, dfw, "synced");
  set.join(dfw, { ...access, identity: set.get(ord)?.identity ?? "" });
  await eventually(() => expect(set.get(dfw)?.reach).toMatchObject({ cause: "WrongIdentity" }));
  expect([view.state(dfw), view.state(ord)]).toEqual(["unsynced", "synced"]);
});
