/** Checks, before Berth holds an owner, that Berth has the permissions to release it. */
import {
  isApiError,
  type KubeClient,
  type SelfSubjectAccessReview,
  selfSubjectAccessReviews,
} from "@berth/kube";
import type { Clock } from "@berth/runtime";
import { BoundedMap } from "../../node/bounded-map.ts";
import type { OwnerHold } from "../footprint.ts";
import type { Guard } from "./decide.ts";
import { guardName, resourceName } from "./held-resource.ts";

/** `missing`: the missing permission, in words; `undefined`: none. `at`: monotonic ms. */
interface Answer {
  readonly guard: string;
  readonly missing: string | undefined;
  readonly at: number;
}

/** How long Berth trusts an answer that grants all permissions, ms. */
export const GRANTED_MS = 600_000;
/** How long Berth trusts an answer that denies a permission, ms. */
export const DENIED_MS = 30_000;
/** How long Berth reports a missing permission, ms. Owners that need it repeat the check every minute. */
export const TOLD_MS = 120_000;
/** One answer for each namespace, if the user grants permissions by namespace. */
const MAX_ANSWERS = 10_000;

/**
 * Asks the API server about permissions by SelfSubjectAccessReview, which every authenticated user may create: Berth
 * cannot try a deletion. Asks first for all namespaces, then for the namespace of the owner.
 */
export class HoldRights {
  readonly #options: { readonly client: Pick<KubeClient, "create">; readonly clock: Clock };
  /** By question and namespace. */
  readonly #answers = new BoundedMap<Answer>({ maxEntries: MAX_ANSWERS });
  /** By hold and namespace: what the last check of an owner found missing. */
  readonly #lacks = new BoundedMap<Answer>({ maxEntries: MAX_ANSWERS });

  constructor(options: { readonly client: Pick<KubeClient, "create">; readonly clock: Clock }) {
    this.#options = options;
  }

  /**
   * The permission that is missing to release owners in this namespace, in words; `undefined`: none.
   *
   * @throws ApiError when the API server does not answer.
   */
  async missing(guard: Guard, namespace: string, signal: AbortSignal): Promise<string | undefined> {
    let answer = await this.#ask(guard, "", signal);
    if (answer.missing !== undefined && namespace !== "") answer = await this.#ask(guard, namespace, signal);
    this.#lacks.set(`${answer.guard} ${namespace}`, { ...answer, at: this.#options.clock.monotonic() });
    return answer.missing;
  }

  /** The permission that a recent check found missing. */
  why(hold: Pick<OwnerHold, "resource" | "finalizer">): string | undefined {
    const asked = guardName(hold);
    const since = this.#options.clock.monotonic() - TOLD_MS;
    for (const [, { guard, missing, at }] of this.#lacks)
      if (guard === asked && at > since && missing !== undefined) return missing;
    return undefined;
  }

  async #ask(guard: Guard, namespace: string, signal: AbortSignal): Promise<Answer> {
    const { onDelete, ownedResources = [] } = guard.footprint?.hold ?? {};
    const name = guardName(guard);
    const key = JSON.stringify([name, onDelete, ownedResources, namespace]);
    const known = this.#answers.get(key);
    const now = this.#options.clock.monotonic();
    if (known && now - known.at < (known.missing === undefined ? GRANTED_MS : DENIED_MS)) return known;
    let missing: string | undefined;
    for (const resource of ownedResources)
      for (const verb of onDelete === "DeleteOwned" ? ["list", "watch", "delete"] : ["list", "watch"])
        missing ??= await this.#lackOf({ ...resource, verb }, namespace, signal);
    const answer = { guard: name, missing, at: now };
    this.#answers.set(key, answer);
    return answer;
  }

  async #lackOf(
    right: OwnerHold["ownedResources"][number] & { readonly verb: string },
    namespace: string,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const review: SelfSubjectAccessReview = {
      spec: { resourceAttributes: { ...right, ...(namespace && { namespace }) } },
    };
    try {
      const { status } = await this.#options.client.create(selfSubjectAccessReviews, review, { signal });
      if (status?.allowed === true) return undefined;
    } catch (error) {
      if (isApiError(error, "forbidden")) return error.message;
      throw error;
    }
    const where = namespace === "" ? "" : ` in namespace "${namespace}"`;
    return `verb "${right.verb}" on "${resourceName(right)}"${where} is missing`;
  }
}
