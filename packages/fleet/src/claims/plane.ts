/** One API server with ResourceClaims: requests about single claims, and whether the service works. */
import { type ApiError, isApiError, type KubeClient } from "@berth/kube";
import { QUOTA_GROUP, QUOTA_VERSION } from "../api/group.ts";
import { type ResourceClaim, resourceClaims } from "../api/quota.ts";
import type { QuotaFailure, QuotaSeen } from "../instance/view.ts";

/** The claim of one Instance. */
export interface ClaimRef {
  readonly project: string;
  /** The namespace in the project. */
  readonly namespace: string;
  readonly name: string;
}

/** Time limit of one request, ms. */
const TIMEOUT_MS = 5_000;

/** Stands for the time of a deletion that the server accepted. */
const EARLIEST = "1970-01-01T00:00:00Z";

type Requests = Pick<KubeClient, "get" | "create" | "delete" | "read">;

export class ClaimPlane {
  readonly #client: Requests;
  readonly #onDown: () => void;
  #isDown = false;

  /** @param onDown called when a request finds that the service does not work. */
  constructor(client: Requests, onDown: () => void) {
    this.#client = client;
    this.#onDown = onDown;
  }

  /** Did the last request find that the service does not work? */
  get isDown(): boolean {
    return this.#isDown;
  }

  /** Reads the claim, past every cache. */
  read(ref: ClaimRef, signal: AbortSignal): Promise<QuotaSeen> {
    const { namespace, name } = ref;
    return this.#ask(ref, "read", signal, async (options) => {
      try {
        return await this.#client.get(resourceClaims, { namespace, name }, options);
      } catch (error) {
        if (isApiError(error, "notFound")) return undefined;
        throw error;
      }
    });
  }

  /** Creates the claim. If there is one of that name, reads it. */
  create(ref: ClaimRef, claim: ResourceClaim, signal: AbortSignal): Promise<QuotaSeen> {
    const { namespace, name } = ref;
    return this.#ask(ref, "create", signal, async (options) => {
      try {
        return await this.#client.create(resourceClaims, claim, { ...options, namespace });
      } catch (error) {
        if (!isApiError(error, "alreadyExists")) throw error;
        return await this.#client.get(resourceClaims, { namespace, name }, options);
      }
    });
  }

  /** Deletes this very claim, and not another one of the same name. Answers with the claim while it may still exist. */
  delete(ref: ClaimRef, claim: ResourceClaim, signal: AbortSignal): Promise<QuotaSeen> {
    const { namespace, name } = ref;
    const { uid } = claim.metadata ?? {};
    return this.#ask(ref, "delete", signal, async (options) => {
      const preconditions = uid === undefined ? {} : { preconditions: { uid } };
      try {
        await this.#client.delete(resourceClaims, { namespace, name }, { ...options, ...preconditions });
      } catch (error) {
        if (!isApiError(error, "notFound", "uidMismatch", "conflict")) throw error;
        return undefined;
      }
      return { ...claim, metadata: { ...claim.metadata, deletionTimestamp: EARLIEST } };
    });
  }

  /** Asks for the API group: the cheapest question that every authenticated user may ask. */
  async probe(signal: AbortSignal): Promise<void> {
    try {
      const path = `/apis/${QUOTA_GROUP}/${QUOTA_VERSION}`;
      await this.#client.read(path, { signal, timeoutMs: TIMEOUT_MS });
    } catch (error) {
      if (!isApiError(error, "notFound", "forbidden")) return;
    }
    this.#isDown = false;
  }

  async #ask(
    { project }: ClaimRef,
    verb: Verb,
    signal: AbortSignal,
    request: (options: Options) => Promise<ResourceClaim | undefined>,
  ): Promise<QuotaSeen> {
    try {
      const value = await request({ signal, timeoutMs: TIMEOUT_MS });
      this.#isDown = false;
      return { is: "read", project, claim: value === undefined ? { is: "none" } : { is: "there", value } };
    } catch (error) {
      if (!isApiError(error) || signal.aborted) throw error;
      const reason = reasonOf(error, verb);
      if (reason === "QuotaBackendUnavailable") {
        this.#isDown = true;
        this.#onDown();
      }
      return { is: "failed", reason, message: error.message };
    }
  }
}

type Verb = "read" | "create" | "delete";
type Options = { readonly signal: AbortSignal; readonly timeoutMs: number };

function reasonOf(error: ApiError, verb: Verb): QuotaFailure {
  if (isApiError(error, "forbidden", "invalid")) return "QuotaMisconfigured";
  if (verb === "create" && isApiError(error, "notFound")) return "QuotaNamespaceNotFound";
  return "QuotaBackendUnavailable";
}
