/** Notices that an API is served, by discovery: a cheaper request than a list, and one for all kinds of a group. */
import { apiVersionOf, type KubeClient, type Resource } from "@berth/kube";
import { type Clock, sleep } from "../clock.ts";

/** Time between two reads of one discovery document. Milliseconds. */
export const DISCOVERY_MS = 5_000;

export interface ServedApisOptions {
  readonly client: Pick<KubeClient, "read">;
  readonly clock: Clock;
}

/** Reads `/apis/<group>/<version>` while a caller waits for a resource of it. Every authenticated user may read it. */
export class ServedApis {
  readonly #options: ServedApisOptions;
  /** The next read of each document, for all who wait for it. */
  readonly #next = new Map<string, Promise<ReadonlySet<string>>>();

  constructor(options: ServedApisOptions) {
    this.#options = options;
  }

  /** Resolves once discovery names the resource, at the earliest after `DISCOVERY_MS`, and when `signal` aborts. */
  async whenServed(resource: Resource, signal: AbortSignal): Promise<void> {
    const path = `/${resource.group === "" ? "api" : "apis"}/${apiVersionOf(resource)}`;
    while (!signal.aborted) {
      const next = this.#next.get(path) ?? this.#readNext(path, signal);
      if ((await next).has(resource.plural)) return;
    }
  }

  #readNext(path: string, signal: AbortSignal): Promise<ReadonlySet<string>> {
    const next = this.#read(path, signal).finally(() => this.#next.delete(path));
    this.#next.set(path, next);
    return next;
  }

  /** The plurals in the document. None when it cannot be read, or when `signal` aborts: others who wait read again. */
  async #read(path: string, signal: AbortSignal): Promise<ReadonlySet<string>> {
    const { client, clock } = this.#options;
    if (!(await sleep(clock, DISCOVERY_MS, signal))) return new Set();
    try {
      const { resources = [] } = JSON.parse(await client.read(path, { signal })) as {
        readonly resources?: readonly { readonly name: string }[];
      };
      return new Set(resources.map(({ name }) => name));
    } catch {
      return new Set();
    }
  }
}
