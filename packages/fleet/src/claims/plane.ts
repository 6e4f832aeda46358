/** One API server with ResourceClaims: requests about single claims, and whether the service works. */
import { type ApiError, isApiError, type KubeClient } from "@berth/kube";
import { QUOTA_GROUP, QUOTA_VERSION } from "../api/group.ts";
import { type ResourceClaim, resourceClaims } from "../api/quota.ts";
import type { QuotaSeen } from "../instance/view.ts";

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

/** What is asked about single claims. */
export type Requests = Pick<KubeClient, "get" | "create" | "delete" | "read">;

/** The service does not work. */
export interface Outage {
  /** How the last request failed. */
  readonly message: string;
  /** A probe has failed after the first request: it is more than one bad answer. */
  readonly isConfirmed: boolean;
}

export class ClaimPlane {
  readonly #client: Requests;
  readonly #onDown: () => void;
  #outage: Outage | undefined;

  /** @param onDown called when a request finds that the service does not work. */
  constructor(client: Requests, onDown: () => void) {
    this.#client = client;
    this.#onDown = onDown;
  }

  /** Set when the last request found that the service does not work. */
  get outage(): Outage | undefined {
    return this.#outage;
  }

  /** Reads the claim, past every cache. */
  read(ref: ClaimRef, signal: AbortSignal): Promise<QuotaSeen> {
    const { namespace, name } = ref;
    return this.#ask(ref, signal, async (options) => {
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
    return this.#ask(ref, signal, async (options) => {
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
    return this.#ask(ref, signal, async (options) => {
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

  /**
   * Finds out whether a claim could be created in this namespace: the server does everything but store it.
   * @returns why not. `undefined` also where the server does not know such trials.
   */
  async tryCreate(ref: ClaimRef, claim: ResourceClaim, signal: AbortSignal): Promise<string | undefined> {
    const { namespace } = ref;
    const answer = await this.#ask(ref, signal, async (options) => {
      try {
        return await this.#client.create(resourceClaims, claim, { ...options, namespace, dryRun: true });
      } catch (error) {
        if (!isApiError(error, "alreadyExists", "invalid")) throw error;
        return undefined;
      }
    });
    return answer.is === "failed" ? answer.message : undefined;
  }

  /** Asks whether the service works again. */
  async probe(signal: AbortSignal): Promise<void> {
    try {
      await this.#read(signal);
    } catch (error) {
      if (!isApiError(error, "notFound", "forbidden")) {
        if (isApiError(error) && !signal.aborted)
          this.#outage = { message: error.message, isConfirmed: true };
        return;
      }
    }
    this.#outage = undefined;
  }

  /** Asks for the API group: the cheapest question that every authenticated user may ask. */
  async #read(signal: AbortSignal): Promise<void> {
    await this.#client.read(`/apis/${QUOTA_GROUP}/${QUOTA_VERSION}`, { signal, timeoutMs: TIMEOUT_MS });
  }

  /** `true` also where the server does not say it. */
  async #isServed(signal: AbortSignal): Promise<boolean> {
    try {
      await this.#read(signal);
      return true;
    } catch (error) {
      return !isApiError(error, "notFound");
    }
  }

  async #ask(
    { project }: ClaimRef,
    signal: AbortSignal,
    request: (options: Options) => Promise<ResourceClaim | undefined>,
  ): Promise<QuotaSeen> {
    try {
      const value = await request({ signal, timeoutMs: TIMEOUT_MS });
      this.#outage = undefined;
      return { is: "read", project, claim: value === undefined ? { is: "none" } : { is: "there", value } };
    } catch (error) {
      if (!isApiError(error) || signal.aborted) throw error;
      return this.#failed(error, signal);
    }
  }

  async #failed(error: ApiError, signal: AbortSignal): Promise<QuotaSeen> {
    const { message } = error;
    const isRefused = isApiError(error, "forbidden", "invalid");
    if (isRefused) return { is: "failed", reason: "QuotaMisconfigured", message };
    if (isApiError(error, "notFound")) {
      // The answer to a creation. A missing namespace and a missing project answer alike.
      const reason = (await this.#isServed(signal)) ? "QuotaNamespaceNotFound" : "QuotaProjectNotFound";
      return { is: "failed", reason, message };
    }
    this.#outage = { message, isConfirmed: this.#outage?.isConfirmed ?? false };
    this.#onDown();
    return { is: "failed", reason: "QuotaBackendUnavailable", message };
  }
}

type Options = { readonly signal: AbortSignal; readonly timeoutMs: number };
