/** Publishes the pages of Websites: a custom resource with status, conditions and a finalizer. See README.md. */
import { configMaps, connect, type KubeObject, loadConfig } from "@berth/kube";
import {
  addFinalizer,
  createRuntime,
  fromStates,
  keyOf,
  type ObjectKey,
  removeFinalizer,
  systemClock,
  watchFor,
} from "@berth/runtime";
import { decide, FINALIZER, OF, PAGES } from "./decide.ts";
import { websites } from "./website.ts";

const NAME = "website-controller";
const config = await loadConfig(process.env);
await using client = connect({ ...config.connect, userAgent: `${NAME}/1`, fieldManager: NAME });
const runtime = createRuntime({ name: `${NAME}.example.com`, client });
const { cluster } = runtime;

const sites = runtime.informer(websites, { indexes: { host: ({ spec }) => [spec.host] } });
const pages = runtime.informer(configMaps, {
  scope: { namespace: PAGES },
  indexes: { site: ({ metadata }) => [metadata?.annotations?.[OF] ?? ""] },
});

runtime.addController({
  name: NAME,
  for: websites,
  // Most of our own writes are in the cache before they are looked at.
  queue: { coalesceMs: 50 },
  sources: [
    // A page that was changed, and one whose host others wait for.
    watchFor({
      informer: pages,
      map: fromStates(({ metadata }): readonly ObjectKey[] => {
        const [namespace, name] = metadata?.annotations?.[OF]?.split("/") ?? [];
        const waiting = sites.byIndex("host", metadata?.name ?? "").map((site) => keyOf(cluster, site));
        return namespace && name ? [...waiting, { cluster, namespace, name }] : waiting;
      }),
    }),
  ],
  async reconcile(key, { signal }) {
    const site = sites.get(key);
    const atHost = site && pages.get({ cluster, namespace: PAGES, name: site.spec.host });
    const mine = pages.byIndex("site", `${key.namespace}/${key.name}`);
    const { finalizer, publish, withdraw, status } = decide({ site, pages: mine, atHost }, systemClock.now());

    const change = site && finalizer === "add" ? addFinalizer(site, FINALIZER) : undefined;
    if (change !== undefined) {
      // It brings a newer version, with which this goes on.
      await runtime.client.patch(websites, key, change, { signal });
      return undefined;
    }
    if (publish !== undefined && atHost === undefined)
      await runtime.client.create(configMaps, publish, { signal });
    if (publish !== undefined && atHost !== undefined) {
      const body = { metadata: versionOf(atHost), data: { ...publish.data } };
      const of = { namespace: PAGES, name: atHost.metadata?.name ?? "" };
      await runtime.client.patch(configMaps, of, { type: "merge", body }, { signal });
    }
    for (const page of withdraw) {
      const of = { namespace: PAGES, name: page.metadata?.name ?? "" };
      await runtime.client.delete(configMaps, of, { preconditions: versionOf(page), signal });
    }
    const last = site && finalizer === "remove" ? removeFinalizer(site, FINALIZER) : undefined;
    if (last !== undefined) await runtime.client.patch(websites, key, last, { signal });
    if (site && status !== undefined) {
      const body = { metadata: versionOf(site), status: { url: null, ...status } };
      await runtime.client.patch(websites, key, { type: "merge", body }, { subresource: "status", signal });
    }
    return undefined;
  },
});

/** What a write is bound to: when another writer was faster, the server refuses, and the key is looked at again. */
function versionOf({ metadata: { uid = "", resourceVersion = "" } = {} }: KubeObject): {
  readonly uid: string;
  readonly resourceVersion: string;
} {
  return { uid, resourceVersion };
}

const stop = new AbortController();
for (const name of ["SIGTERM", "SIGINT"] as const) process.once(name, () => stop.abort());
const end = await runtime.run(stop.signal);
process.exitCode = end.reason === "stopped" ? 0 : 1;
