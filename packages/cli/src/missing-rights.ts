/** Which writes the server refused when they were last asked for: for the conditions of whoever wanted them. */
import { isApiError, type KubeClient, nameOfResource, type Resource } from "@berth/kube";

type Writes = Pick<KubeClient, "get" | "patch" | "apply" | "delete">;

/** Refusals that are remembered: as many as there are namespaces, verbs and resources, and of them the last. */
const MAX_REFUSALS = 1000;

/**
 * A right is taken for missing from the first refusal until the same is allowed in that namespace. Rights to read are not
 * looked at: informers tell of these.
 */
export class MissingRights {
  /** By resource, verb and namespace. */
  readonly #refused = new Map<string, { readonly resource: string; readonly message: string }>();

  /** The client, with its refusals noted. */
  listenTo(client: Writes): Writes {
    return {
      get: (resource, of, options) => client.get(resource, of, options),
      patch: (resource, of, patch, options) =>
        this.#note("patch", resource, of.namespace, client.patch(resource, of, patch, options)),
      apply: (resource, object, options) =>
        this.#note("patch", resource, object.metadata?.namespace, client.apply(resource, object, options)),
      delete: (resource, of, options) =>
        this.#note("delete", resource, of.namespace, client.delete(resource, of, options)),
    };
  }

  /** What the server said to one of these resources, as kubectl names them: `workerpools.ate.dev`. */
  why(resources: readonly string[]): string | undefined {
    for (const { resource, message } of this.#refused.values())
      if (resources.includes(resource)) return message;
    return undefined;
  }

  async #note<R>(verb: string, of: Resource, namespace = "", request: Promise<R>): Promise<R> {
    const resource = nameOfResource(of);
    const key = `${resource} ${verb} ${namespace}`;
    try {
      const answer = await request;
      this.#refused.delete(key);
      return answer;
    } catch (error) {
      if (!isApiError(error, "forbidden")) throw error;
      this.#refused.delete(key);
      for (const oldest of this.#refused.keys()) {
        if (this.#refused.size < MAX_REFUSALS) break;
        this.#refused.delete(oldest);
      }
      this.#refused.set(key, { resource, message: error.message });
      throw error;
    }
  }
}
