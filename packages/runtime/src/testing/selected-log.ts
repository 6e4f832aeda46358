import {
  ApiError,
  type KubeClient,
  type KubeObject,
  type ListOptions,
  type Resource,
  type WatchEvent,
  type WatchOptions,
} from "@berth/kube";
import type { VersionLog } from "./version-log.ts";

type Client = Pick<KubeClient, "list" | "watch">;
type Selects = (object: KubeObject) => boolean;

/**
 * A client of the log that applies a field selector, as the API server does: an object that is selected no longer arrives
 * as deleted, in its last selected state and the new version.
 *
 * @param refuses selectors that the server refuses to list and watch.
 */
export function connectSelecting(
  log: VersionLog,
  selection: (selector: string) => Selects,
  { refused }: { readonly refused: ReadonlySet<string> },
): Client {
  const client = log.connect();
  const before = ({ fieldSelector = "" }: { readonly fieldSelector?: string }): Selects => {
    if (refused.has(fieldSelector))
      throw new ApiError({ kind: "forbidden" }, { verb: "list", resource: "things" });
    return selection(fieldSelector);
  };
  return {
    async list<T extends KubeObject>(resource: Resource<T>, { project, ...options }: ListOptions<T> = {}) {
      const selects = before(options);
      const { items, ...rest } = await client.list(resource, options);
      return { ...rest, items: items.filter(selects).map((it) => project?.(it) ?? it) };
    },
    async watch<T extends KubeObject>(resource: Resource<T>, { project, ...options }: WatchOptions<T> = {}) {
      const selects = before(options);
      const { resourceVersion, sendInitialEvents } = options;
      const state = sendInitialEvents ? undefined : log.states[Number(resourceVersion)];
      const seen = new Map(state?.entries().filter(([, object]) => selects(object)));
      const stream = await client.watch(resource, options);
      return {
        get lastByteAt() {
          return stream.lastByteAt;
        },
        async *[Symbol.asyncIterator]() {
          for await (const event of stream) {
            const chosen = event.type === "BOOKMARK" ? event : choose(event, seen, selects);
            if (chosen === undefined || chosen.type === "BOOKMARK") {
              if (chosen !== undefined) yield chosen;
            } else yield { ...chosen, object: project?.(chosen.object as T) ?? (chosen.object as T) };
          }
        },
        [Symbol.asyncDispose]: () => stream[Symbol.asyncDispose](),
      };
    },
  };
}

/** The event as a watch with a selector has it. @param seen the selected objects by name, kept up to date. */
function choose(
  event: Exclude<WatchEvent<KubeObject>, { type: "BOOKMARK" }>,
  seen: Map<string, KubeObject>,
  selects: Selects,
): typeof event | undefined {
  const { object, type } = event;
  const name = object.metadata?.name ?? "";
  const last = seen.get(name);
  const isIn = type !== "DELETED" && selects(object);
  if (isIn) seen.set(name, object);
  else seen.delete(name);
  if (isIn) return { type: last === undefined ? "ADDED" : "MODIFIED", object };
  const resourceVersion = object.metadata?.resourceVersion ?? "";
  return last && { type: "DELETED", object: { ...last, metadata: { ...last.metadata, resourceVersion } } };
}
