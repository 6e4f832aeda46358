/** Copies ConfigMaps into other namespaces and keeps the copies equal. See README.md. */
import { parseArgs } from "node:util";
import { type ConfigMap, configMaps, connect, loadConfig, namespaces } from "@berth/kube";
import {
  changed,
  createRuntime,
  fromStates,
  keyOf,
  type ObjectKey,
  referenceTo,
  watchFor,
} from "@berth/runtime";
import { decide, isSource, sourceOf } from "./decide.ts";

const NAME = "configmap-copier";
const { values: flags } = parseArgs({ options: { "leader-elect": { type: "boolean", default: false } } });
const config = await loadConfig(process.env);
await using client = connect({ ...config.connect, userAgent: `${NAME}/1`, fieldManager: NAME });

const runtime = createRuntime({
  name: `${NAME}.example.com`,
  client,
  ...(flags["leader-elect"] && { lease: { namespace: config.namespace ?? "default", name: NAME } }),
});
const { cluster } = runtime;
const namespaceCache = runtime.informer(namespaces);
const cache = runtime.informer(configMaps, {
  indexes: {
    name: ({ metadata }) => [metadata?.name ?? ""],
    source: (object) => [sourceOf(object) ?? ""],
    sources: (object) => (isSource(object) ? ["all"] : []),
  },
});

const keysOf = (objects: readonly ConfigMap[]): readonly ObjectKey[] =>
  objects.map((object) => keyOf(cluster, object));

runtime.addController({
  name: NAME,
  for: configMaps,
  // Most of our own writes are in the cache before they are looked at.
  queue: { coalesceMs: 50 },
  sources: [
    // A copy that was changed or deleted, and a stranger who gave a name free.
    watchFor({
      informer: cache,
      map: fromStates((object) => {
        const [namespace, name] = sourceOf(object)?.split("/") ?? [];
        const namesakes = cache.byIndex("name", object.metadata?.name ?? "").filter(isSource);
        return [...keysOf(namesakes), ...(namespace && name ? [{ cluster, namespace, name }] : [])];
      }),
    }),
    watchFor({
      informer: namespaceCache,
      predicate: changed(({ status }) => status?.phase),
      map: () => keysOf(cache.byIndex("sources", "all")),
    }),
  ],
  async reconcile(key, { signal }) {
    const source = `${key.namespace}/${key.name}`;
    const object = cache.get(key);
    const decision = decide({
      source,
      object,
      namespaces: [...namespaceCache.list()],
      present: [...new Set([...cache.byIndex("name", key.name), ...cache.byIndex("source", source)])],
    });
    for (const copy of decision.create) await runtime.client.create(configMaps, copy, { signal });
    for (const copy of decision.replace) await runtime.client.replace(configMaps, copy, { signal });
    for (const {
      metadata: { name = "", namespace = "", uid = "", resourceVersion = "" } = {},
    } of decision.remove)
      await runtime.client.delete(
        configMaps,
        { namespace, name },
        { preconditions: { uid, resourceVersion }, signal },
      );
    if (object !== undefined && decision.occupied.length > 0) {
      runtime.events.record({
        regarding: referenceTo(configMaps, object),
        type: "Warning",
        reason: "TargetOccupied",
        action: "Copy",
        note: `not copied to ${decision.occupied.join(", ")}: there is another ConfigMap of this name`,
      });
    }
    return undefined;
  },
});

const stop = new AbortController();
for (const name of ["SIGTERM", "SIGINT"] as const) process.once(name, () => stop.abort());
const end = await runtime.run(stop.signal);
process.exitCode = end.reason === "stopped" ? 0 : 1;
