/** Deletes what has outlived its `example.com/ttl`. See README.md. */
import { parseArgs } from "node:util";
import { configMaps, connect, jobs, type KubeObject, loadConfig, type Resource } from "@berth/kube";
import { createRuntime, referenceTo, type SharedInformerOptions, systemClock } from "@berth/runtime";
import { decide, finishedAt } from "./decide.ts";

const NAME = "ttl-janitor";
const { values: flags } = parseArgs({ options: { "leader-elect": { type: "boolean", default: false } } });
const config = await loadConfig(process.env);
await using client = connect({ ...config.connect, userAgent: `${NAME}/1`, fieldManager: NAME });
const runtime = createRuntime({
  name: `${NAME}.example.com`,
  client,
  ...(flags["leader-elect"] && { lease: { namespace: config.namespace ?? "default", name: NAME } }),
});

/** Looks after one kind. `startsAt` says when the time of an object begins to run. */
function lookAfter<T extends KubeObject>(
  resource: Resource<T>,
  startsAt: (object: T) => string | undefined,
  options?: SharedInformerOptions<T>,
): void {
  const cache = runtime.informer(resource, options);
  runtime.addController({
    name: `${NAME}-${resource.plural}`,
    for: resource,
    async reconcile(key, { signal, log }) {
      const object = cache.get(key);
      if (object === undefined) return undefined;
      const decision = decide(object, startsAt(object), systemClock.now());
      if (decision.act === "wait") return { recheckAfterMs: decision.forMs };
      if (decision.act === "report") {
        const regarding = referenceTo(resource, object);
        const note = decision.fault;
        runtime.events.record({ regarding, type: "Warning", reason: "InvalidTtl", action: "Delete", note });
      }
      if (decision.act !== "delete") return undefined;
      const { uid = "", resourceVersion = "" } = object.metadata ?? {};
      // Of this very version: who takes the annotation away, or lengthens the time, is in time until the end.
      const preconditions = { uid, resourceVersion };
      await runtime.client.delete(resource, key, { preconditions, propagationPolicy: "Background", signal });
      log.info("deleted, its time was over");
      return undefined;
    },
  });
}

lookAfter(jobs, finishedAt);
// The janitor does not need their content, so it reads only the metadata.
lookAfter(configMaps, ({ metadata }) => metadata?.creationTimestamp, { metadataOnly: true });

const stop = new AbortController();
for (const name of ["SIGTERM", "SIGINT"] as const) process.once(name, () => stop.abort());
const end = await runtime.run(stop.signal);
process.exitCode = end.reason === "stopped" ? 0 : 1;
