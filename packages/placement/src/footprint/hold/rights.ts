/** Whether Berth may do what letting an owner go takes, asked before it is held. */
import {
  isApiError,
  type KubeClient,
  type SelfSubjectAccessReview,
  selfSubjectAccessReviews,
} from "@berth/kube";
import type { Clock } from "@berth/runtime";
import type { GroupVersionResource, OwnerHold } from "../footprint.ts";
import type { Guard } from "./decide.ts";
import { guardName, resourceName, versionedName } from "./held-resource.ts";

/** Something to be allowed of the resources that owners own. */
interface Right {
  readonly verb: "list" | "watch" | "delete";
  readonly resource: GroupVersionResource;
}

const TO_READ = ["list", "watch"] as const;
const WITH_DELETE = [...TO_READ, "delete"] as const;

interface Lack {
  /** As `guardName` has it: where one right is missing, nobody is held by it. */
  readonly guard: string;
  readonly text: string;
  /** Monotonic ms. */
  readonly until: number;
}

/** How long a right is believed to be there, ms. When it is taken away later, the owners that wait tell of it. */
export const GRANTED_MS = 600_000;
/** How long it is believed to be missing, ms. */
export const DENIED_MS = 30_000;
/** For how long after it was found missing that is told, ms: whoever still needs it asks again every minute. */
export const TOLD_MS = 120_000;
/** Answers remembered: a few for each namespace where rights are given by namespace. Beyond it all are asked for anew. */
const MAX_ANSWERS = 10_000;

/**
 * Asks the server for the rights themselves (SelfSubjectAccessReview, which every authenticated user may make), for a
 * deletion cannot be tried. First for all namespaces, then for the one of the owner.
 */
export class HoldRights {
  readonly #client: Pick<KubeClient, "create">;
  readonly #clock: Clock;
  readonly #answers = new Map<string, { readonly allowed: boolean; readonly until: number }>();
  /** By guard and namespace. */
  readonly #lacks = new Map<string, Lack>();

  constructor({
    client,
    clock,
  }: {
    readonly client: Pick<KubeClient, "create">;
    readonly clock: Clock;
  }) {
    this.#client = client;
    this.#clock = clock;
  }

  /**
   * What is missing to let go of owners in this namespace, in words; `undefined`: nothing.
   *
   * @throws ApiError when the server does not say.
   */
  async missing(guard: Guard, namespace: string, signal: AbortSignal): Promise<string | undefined> {
    let missing: string | undefined;
    for (const right of rightsOf(guard)) {
      missing = await this.#lackOf(right, namespace, signal);
      if (missing !== undefined) break;
    }
    this.#note(guardName(guard), namespace, missing);
    return missing;
  }

  /** What was missing to hold these owners by this finalizer, for whichever footprint, when last asked. */
  why(hold: Pick<OwnerHold, "resource" | "finalizer">): string | undefined {
    const asked = guardName(hold);
    const now = this.#clock.monotonic();
    for (const { guard, text, until } of this.#lacks.values())
      if (until > now && guard === asked) return text;
    return undefined;
  }

  #note(guard: string, namespace: string, text: string | undefined): void {
    const key = `${guard} ${namespace}`;
    this.#lacks.delete(key);
    if (text === undefined) return;
    if (this.#lacks.size >= MAX_ANSWERS) this.#lacks.clear();
    this.#lacks.set(key, { guard, text, until: this.#clock.monotonic() + TOLD_MS });
  }

  async #lackOf(right: Right, namespace: string, signal: AbortSignal): Promise<string | undefined> {
    try {
      if (await this.#may(right, "", signal)) return undefined;
      if (namespace !== "" && (await this.#may(right, namespace, signal))) return undefined;
    } catch (error) {
      if (isApiError(error, "forbidden")) return error.message;
      throw error;
    }
    const where = namespace === "" ? "" : ` in namespace "${namespace}"`;
    return `verb "${right.verb}" on "${resourceName(right.resource)}"${where} is missing`;
  }

  async #may(right: Right, namespace: string, signal: AbortSignal): Promise<boolean> {
    const key = textOf(right, namespace);
    const known = this.#answers.get(key);
    if (known !== undefined && known.until > this.#clock.monotonic()) return known.allowed;
    const { group, version, resource } = right.resource;
    const question: SelfSubjectAccessReview = {
      spec: {
        resourceAttributes: { verb: right.verb, group, version, resource, ...(namespace && { namespace }) },
      },
    };
    const { status } = await this.#client.create(selfSubjectAccessReviews, question, { signal });
    const allowed = status?.allowed === true;
    if (this.#answers.size >= MAX_ANSWERS) this.#answers.clear();
    this.#answers.set(key, {
      allowed,
      until: this.#clock.monotonic() + (allowed ? GRANTED_MS : DENIED_MS),
    });
    return allowed;
  }
}

/** To know what is owned, and to delete it where that is asked for; each once. */
function rightsOf({ footprints }: Guard): readonly Right[] {
  const rights = new Map<string, Right>();
  for (const { hold } of footprints) {
    const verbs = hold?.onDelete === "DeleteOwned" ? WITH_DELETE : TO_READ;
    for (const resource of hold?.ownedResources ?? [])
      for (const verb of verbs) rights.set(textOf({ verb, resource }, ""), { verb, resource });
  }
  return [...rights.values()];
}

function textOf({ verb, resource }: Right, namespace: string): string {
  return `${verb} ${versionedName(resource)} ${namespace}`;
}
