/** What the informer promises, against a real API server behind a proxy that can fail. `T-n`: see "Traps" in the README. */
import { performance } from "node:perf_hooks";
import {
  type ConfigMap,
  type CustomResourceDefinition,
  configMaps,
  customResourceDefinitions,
  defineResource,
  type KubeObject,
  namespaces,
  nodes,
} from "@berth/kube";
import { aNode, answer, cutBefore, eventually, sharedTestCluster } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { startProxied } from "../../kube/src/testing/proxied.ts";
import { grant } from "./testing/grant.ts";
import {
  differencesFrom,
  type LiveInformer,
  type LiveInformerOptions,
  launchInformer,
  startInformer,
} from "./testing/live-informer.ts";

const SNAPSHOT = { verb: "watch", path: /sendInitialEvents=true/ } as const;
let namespaceCount = 0;

const cluster = await sharedTestCluster();

/** A namespace of its own, a way to it that can fail, and one that cannot. */
async function setUp(...names: readonly string[]) {
  await using undo = new AsyncDisposableStack();
  const namespace = `informer-${++namespaceCount}`;
  await cluster.client.create(namespaces, { metadata: { name: namespace } });
  const { proxy, client } = undo.use(await startProxied(cluster, { userAgent: namespace }));
  const scope = { namespace };
  const write = async (name: string): Promise<ConfigMap> => {
    const body = { data: { written: `${performance.now()}` } };
    const present = await cluster.client.list(configMaps, {
      ...scope,
      fieldSelector: `metadata.name=${name}`,
    });
    return present.items.length === 0
      ? cluster.client.create(configMaps, { metadata: { name }, ...body }, scope)
      : cluster.client.patch(configMaps, { namespace, name }, { type: "merge", body });
  };
  for (const name of names) await write(name);
  const owned = undo.move();
  return {
    namespace,
    proxy,
    client,
    write,
    remove: (name: string) => cluster.client.delete(configMaps, { namespace, name }),
    start: async (options: Partial<LiveInformerOptions<ConfigMap>> = {}) =>
      owned.use(await startInformer({ client, resource: configMaps, scope, ...options })),
    /** Resolves once the informer holds exactly what the server has. */
    untilEqual: (live: LiveInformer<ConfigMap>) =>
      eventually(async () =>
        expect(await differencesFrom(live, cluster.client, { resource: configMaps, scope })).toEqual([]),
      ),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

describe("the first snapshot", () => {
  it("T-14 comes as a stream that goes on as the watch, in one request", async () => {
    await using setup = await setUp("a", "b");
    const live = await setup.start();
    expect(live.names()).toEqual(["a", "b"]);
    await setup.write("c");
    await setup.untilEqual(live);
    expect(setup.proxy.requests).toMatchObject([{ verb: "watch", status: 200 }]);
    expect(setup.proxy.requests[0]?.path).toContain("allowWatchBookmarks=true");
    expect(Number(setup.proxy.requests[0]?.query.get("timeoutSeconds"))).toBeGreaterThanOrEqual(300);
    expect(live.history.log).toEqual(["added a (initial)", "added b (initial)", "added c"]);
  });

  it.each([400, 422])("T-14 comes in pages when the stream is refused with %i", async (status) => {
    await using setup = await setUp("a", "b", "c", "d", "e");
    using refusal = setup.proxy.on(SNAPSHOT, answer(status));
    const live = await setup.start({ pageSize: 2 });
    await setup.write("f");
    await setup.untilEqual(live);
    expect(setup.proxy.requests.map(({ verb }) => verb)).toEqual(["watch", "list", "list", "list", "watch"]);
    expect(refusal.hits).toBe(1);
  });

  it("T-5 gives the same object as a page, as a stream and as a live event", async () => {
    await using setup = await setUp("a");
    const live = await setup.start();
    const fromStream = live.get("a", setup.namespace);
    const written = await setup.write("b");
    await setup.untilEqual(live);
    const fromEvent = live.get("b", setup.namespace);
    using refusal = setup.proxy.on(SNAPSHOT, answer(422));
    const paged = await setup.start();
    expect(refusal.hits).toBe(1);
    expect(paged.get("a", setup.namespace)).toEqual(fromStream);
    expect(paged.get("b", setup.namespace)).toEqual(fromEvent);
    const { managedFields: _managedFields, ...metadata } = written.metadata ?? {};
    expect(fromEvent).toEqual({ ...written, metadata });
  });
});

describe("a watch that is lost", () => {
  it("T-2 T-3 is resumed by version: nothing is listed again, nothing missed, nothing told twice", async () => {
    await using setup = await setUp("a", "b");
    const live = await setup.start();
    const before = await cluster.audit.mark();
    {
      using down = setup.proxy.on({ verb: "watch" }, cutBefore());
      setup.proxy.cutStreams();
      await down.until();
      await setup.write("a");
      await setup.remove("b");
      await setup.write("b");
      await setup.write("c");
    }
    await setup.untilEqual(live);
    expect(live.history.log.slice(2)).toEqual(["updated a", "deleted b", "added b", "added c"]);
    const asked = await cluster.audit.entriesSince(before, { userAgent: setup.namespace });
    expect(asked.map(({ verb }) => verb)).toEqual(["watch"]);
    expect(asked[0]?.requestUri).not.toContain("sendInitialEvents");
  });
});

describe("what the lister holds", () => {
  const widgets = defineResource<KubeObject & { readonly spec: object }>({
    group: "informer.example.com",
    version: "v1",
    plural: "widgets",
    kind: "Widget",
    namespaced: false,
  });

  it("T-9 keeps fields that no type knows, of a resource that appears only later", async () => {
    await using client = cluster.connect();
    await using live = launchInformer({ client, resource: widgets });
    await eventually(() =>
      expect(live.informer.problem()).toMatch(
        /^not synced yet: (list|watch) widgets\.informer\.example\.com: /,
      ),
    );
    await cluster.client.create(customResourceDefinitions, widgetDefinition());
    expect(await live.informer.whenSynced()).toBe(true);
    const spec = { futureField137: { deep: [1, { er: null }] } };
    await cluster.client.create(widgets, { metadata: { name: "w" }, spec });
    await eventually(() =>
      expect(live.get("w")).toMatchObject({ apiVersion: "informer.example.com/v1", spec }),
    );
  });

  it("follows a label selector: an object that no longer fits is deleted", async () => {
    await using client = cluster.connect();
    const node = aNode("selected").labelled({ "informer.example.com/of": "us" });
    await cluster.client.create(nodes, node.build());
    const scope = { labelSelector: "informer.example.com/of=us" };
    await using live = await startInformer({ client, resource: nodes, scope });
    expect(live.names()).toEqual(["selected"]);
    const moved = { metadata: { labels: { "informer.example.com/of": "them" } } };
    await cluster.client.patch(nodes, { name: "selected" }, { type: "merge", body: moved });
    await eventually(() => expect(live.names()).toEqual([]));
    expect(live.history.log).toEqual(["added selected (initial)", "deleted selected"]);
  });
});

it("permission that is missing is named, with verb and resource, until it is granted", async () => {
  await using setup = await setUp("a");
  const { namespace } = setup;
  await using client = cluster.connect({ user: await cluster.user("onlooker") });
  const scope = { namespace };
  await using live = launchInformer({ client, resource: configMaps, scope });
  await eventually(() =>
    expect(live.informer.problem()).toMatch(
      /^not synced yet: (list|watch) configmaps in "informer-\d+": .*onlooker/,
    ),
  );
  await using _rights = await grant(cluster, "onlooker", configMaps, "list", "watch");
  await setup.untilEqual(live);
  expect(live.informer.problem()).toBeUndefined();
});

/** Of a resource whose spec takes any field. */
function widgetDefinition(): CustomResourceDefinition {
  const spec = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
  const schema = { openAPIV3Schema: { type: "object", properties: { spec } } };
  return {
    metadata: { name: "widgets.informer.example.com" },
    spec: {
      group: "informer.example.com",
      scope: "Cluster",
      names: { plural: "widgets", singular: "widget", kind: "Widget" },
      versions: [{ name: "v1", served: true, storage: true, schema }],
    },
  };
}
