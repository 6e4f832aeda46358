/** Builds one answer to an admission review from the answers of all rules that it concerns. */
import {
  isApiError,
  type JsonPatchOperation,
  type KubeClient,
  namespaces,
  subjectAccessReviews,
} from "@berth/kube";
import {
  type AdmissionAnswer,
  type AdmissionContext,
  type AdmissionHandler,
  type AdmissionRequest,
  type Clock,
  type Logger,
  systemClock,
} from "@berth/runtime";
import { type Asker, createAsker } from "./asker.ts";
import { applyPatch } from "./json-patch.ts";
import { areTogether } from "./merge.ts";
import type { AdmissionEnv, BoundReview, BoundRules, ReviewIo } from "./rules.ts";

export interface ReviewOptions {
  /** For the questions of reviews. */
  readonly client: Pick<KubeClient, "list" | "create">;
  readonly env: AdmissionEnv;
  readonly log: Logger;
  /** Default: the machine's. */
  readonly clock?: Clock;
}

/** Timeout of a request for an answer, ms. The API server waits 5 s for the whole answer. */
const TIMEOUT_MS = 2_000;

/**
 * Handlers by path. A path answers for all rules that share its resource and want to be asked, except `alone` reviews.
 * So the answer is complete whichever replica wrote the configuration, and whether it is merged or not.
 */
export function reviewHandlers(
  all: readonly BoundRules[],
  options: ReviewOptions,
): Readonly<Record<string, AdmissionHandler>> {
  const pairs = all.flatMap((rules) => rules.reviews.map((review) => [rules, review] as const));
  const asker = createAsker(options.clock ?? systemClock);
  const handlers = pairs.map(([rules, review]): [string, AdmissionHandler] => {
    const together = pairs.filter((pair) => areTogether([rules, review], pair)).map(([, it]) => it);
    // Reviews with the same path share one answer.
    const asked = [...new Map(together.map((it) => [it.path, it])).values()];
    return [
      review.path,
      (request, context) => {
        const wanted = asked.filter((it) => it.path === review.path || it.when(options.env) !== undefined);
        return answer(wanted, request, { ...options, ...context, asker });
      },
    ];
  });
  return Object.fromEntries(handlers);
}

type Answering = ReviewOptions & AdmissionContext & { readonly asker: Asker };

function answer(
  asked: readonly BoundReview[],
  request: AdmissionRequest,
  options: Answering,
): AdmissionAnswer | Promise<AdmissionAnswer> {
  const [only] = asked;
  const io = createIo(request, options);
  return only !== undefined && asked.length === 1
    ? only.answer(request, io)
    : answerAll(asked, request, io, options);
}

/**
 * Each review gets the object as patched so far. When a later review patches it, the earlier ones are asked once more,
 * as with `reinvocationPolicy: IfNeeded`. When a review with `Ignore` fails, the answers of the others count.
 */
async function answerAll(
  asked: readonly BoundReview[],
  request: AdmissionRequest,
  io: ReviewIo,
  { env, log }: Answering,
): Promise<AdmissionAnswer> {
  const patch: JsonPatchOperation[] = [];
  const failures = new Map<BoundReview, unknown>();
  let { object } = request;
  let lastPatched = -1;
  /** @returns the answer if it is a denial. */
  const ask = async (at: number, review: BoundReview): Promise<AdmissionAnswer | undefined> => {
    try {
      const said = review.answer({ ...request, object }, io);
      const answered = said instanceof Promise ? await said : said;
      if (!answered.allowed) return answered;
      if (answered.patch === undefined || answered.patch.length === 0) return undefined;
      object = applyPatch(object, answered.patch);
      patch.push(...answered.patch);
      lastPatched = at;
    } catch (error) {
      if (review.failurePolicy(env) === "Fail") throw error;
      failures.set(review, error);
    }
    return undefined;
  };
  for (const [at, review] of asked.entries()) {
    const denial = await ask(at, review);
    if (denial !== undefined) return denial;
  }
  for (const [at, review] of asked.slice(0, Math.max(lastPatched, 0)).entries()) {
    const denial = await ask(at, review);
    if (denial !== undefined) return denial;
  }
  if (failures.size === asked.length) throw failures.values().next().value;
  for (const [{ path }, error] of failures)
    log.error("a rule of an admission review failed", { path, error });
  return { allowed: true, patch };
}

/** Several reviews may wait for one answer, so none of them ends a request. */
const REQUEST = { timeoutMs: TIMEOUT_MS };

function createIo(
  { userInfo, namespace = "" }: AdmissionRequest,
  { client, asker, peer, log }: Answering,
): ReviewIo {
  const asking = { user: userInfo?.username ?? "", namespace, peer };
  return {
    async accessReview(spec) {
      try {
        const answer = asker.ask(spec, asking, () => client.create(subjectAccessReviews, { spec }, REQUEST));
        if (answer === undefined) return { kind: "busy" };
        return { kind: (await answer).status?.allowed ? "allowed" : "denied" };
      } catch (error) {
        if (!isApiError(error)) throw error;
        log.debug("the access of a user could not be asked", { error: error.message });
        return { kind: "failed" };
      }
    },
    /** With a list request: Berth has no permission to `get` a namespace. */
    async namespaceLabels(name) {
      const read = { fieldSelector: `metadata.name=${name}`, metadataOnly: true, ...REQUEST };
      try {
        const answer = await asker.ask(["labels", name], asking, () => client.list(namespaces, read));
        const found = answer?.items.find(({ metadata }) => metadata?.name === name);
        return found && (found.metadata?.labels ?? {});
      } catch (error) {
        if (!isApiError(error)) throw error;
        return undefined;
      }
    },
  };
}
