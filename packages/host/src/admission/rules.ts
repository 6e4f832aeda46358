/** What a capability declares about admission: which objects the API server asks about, and the answers. */
import type {
  KubeObject,
  LabelSelector,
  MatchCondition,
  MutatingAdmissionPolicy,
  MutatingAdmissionPolicyBinding,
  NamedRuleWithOperations,
} from "@berth/kube";
import type { AdmissionAnswer, AdmissionRequest } from "@berth/runtime";
import type { AdmissionServerSpec } from "./settings.ts";

/** What becomes of an object that nobody can be asked about: it is let in as it is, or refused. */
export type FailurePolicy = "Ignore" | "Fail";

/** What rules may know of the installation. */
export interface AdmissionEnv {
  /** Part of the names and labels of objects. */
  readonly installation: string;
  /** Of the installation itself, whose pods have to start while no replica answers. Absent outside of a cluster. */
  readonly namespace?: string;
  readonly spec: Pick<AdmissionServerSpec, "failurePolicy" | "podFailurePolicy">;
}

/** When the API server asks. All of it only spares questions, unless the review is `alone`. */
export interface AskedWhen {
  /** How long an object is held up by a replica that takes the connection and does not answer. */
  readonly timeoutSeconds: number;
  readonly namespaceSelector?: LabelSelector;
  readonly matchConditions?: readonly MatchCondition[];
}

/** What an answer may read. */
export interface ReviewIo {
  /** The labels of a namespace that no watch has shown yet, within 2 s. `undefined`: it is not there, or was not read. */
  namespaceLabels(name: string): Promise<Readonly<Record<string, string>> | undefined>;
}

/** One question of the API server. `C` is what the documents compile to. */
export interface ReviewRules<C> {
  /** Of its webhook: `pods` becomes `pods.<name of the rules>.berth.dev`. */
  readonly name: string;
  readonly path: string;
  /** Reviews with equal rules and failure policies become one webhook. */
  readonly rule: NamedRuleWithOperations;
  /** The answer relies on the selectors of `when`, so the review is never merged with another. Default false. */
  readonly alone?: true;
  /** Default `Ignore`. */
  readonly failurePolicy?: (env: AdmissionEnv) => FailurePolicy;
  /** `undefined`: the API server is not to ask. */
  readonly when: (inForce: C, env: AdmissionEnv) => AskedWhen | undefined;
  /**
   * From memory. Asked again after a later rule has patched the object; the second answer only adds what the first could
   * not know. What it throws is settled by the failure policy.
   */
  readonly answer: (
    inForce: C,
    request: AdmissionRequest,
    io: ReviewIo,
  ) => AdmissionAnswer | Promise<AdmissionAnswer>;
}

/**
 * A policy and its binding, both with the same name. Without its binding a policy does nothing, so deleting the bindings
 * turns all policies off. The policies have no parameter object: the API server accepts a policy with a `paramKind` only
 * from a user who may read every object of that kind.
 */
export interface PolicyPair {
  readonly policy: MutatingAdmissionPolicy;
  readonly binding: MutatingAdmissionPolicyBinding;
}

/** Reviews of one capability that stand, and fail, together. */
export interface AdmissionRules<C> {
  /** Of the configuration, `berth-<name>`, and the label `app.kubernetes.io/component` of all its objects. */
  readonly name: string;
  readonly effect: "mutate" | "validate";
  readonly reviews: readonly ReviewRules<C>[];
  /**
   * The same in CEL, which the API server evaluates by itself. The host uses policies or the webhook, never both. With them, a
   * webhook configuration of another product may be adopted.
   */
  readonly policies?: (inForce: C, env: AdmissionEnv) => readonly PolicyPair[];
  /** `asked` and `byPolicy` say that it works, `off` what follows where the API server does not ask. */
  readonly texts: {
    readonly asked: string;
    readonly byPolicy?: string;
    readonly off: (why: "off" | "homeless") => string;
  };
  /**
   * Did an object come through admission? A sentence: no, and what to look at. `undefined`: it would look the same either
   * way. Asked only about objects that have just been made.
   */
  passed?(this: void, object: KubeObject, inForce: C): true | string | undefined;
}

/** What compiled documents say of themselves. */
export interface InForce {
  /** What stands may be for documents that are yet to be read, within a moment or with a CRD that comes back. */
  readonly policy: { readonly isUndecided?: true; readonly isReading?: true };
}

/** Rules with the documents in force: what they say now. */
export interface BoundRules extends Pick<AdmissionRules<never>, "name" | "effect" | "texts"> {
  /** `unread`: no documents at all; `reading`: soon; `undecided`: what stands is not to be changed. */
  readonly read: () => "unread" | "reading" | "undecided" | "read";
  readonly reviews: readonly BoundReview[];
  readonly policies?: (env: AdmissionEnv) => readonly PolicyPair[];
  readonly passed?: (object: KubeObject) => true | string | undefined;
}

export interface BoundReview extends Pick<ReviewRules<never>, "name" | "path" | "rule" | "alone"> {
  readonly failurePolicy: (env: AdmissionEnv) => FailurePolicy;
  readonly when: (env: AdmissionEnv) => AskedWhen | undefined;
  readonly answer: (request: AdmissionRequest, io: ReviewIo) => AdmissionAnswer | Promise<AdmissionAnswer>;
}

/** @param inForce `undefined` until documents have been read. */
export function bindAdmission<C extends InForce>(
  { name, effect, texts, reviews, policies, passed }: AdmissionRules<C>,
  inForce: () => C | undefined,
): BoundRules {
  const withRead = <T>(use: (found: C) => T): T | undefined => {
    const found = inForce();
    return found && use(found);
  };
  /** Each review asks, so an answer is kept while the documents are the same. */
  const once = (when: ReviewRules<C>["when"]): BoundReview["when"] => {
    let last:
      | { readonly of: C; readonly env: AdmissionEnv; readonly when: AskedWhen | undefined }
      | undefined;
    return (env) =>
      withRead((found) => {
        if (last?.of !== found || last.env !== env) last = { of: found, env, when: when(found, env) };
        return last.when;
      });
  };
  return {
    name,
    effect,
    texts,
    read: () =>
      withRead(({ policy }) => (policy.isReading ? "reading" : policy.isUndecided ? "undecided" : "read")) ??
      "unread",
    reviews: reviews.map((review) => ({
      ...review,
      failurePolicy: review.failurePolicy ?? (() => "Ignore"),
      when: once(review.when),
      answer(request, io) {
        const found = inForce();
        if (found === undefined) throw new Error(`the documents of ${name} have not been read yet`);
        return review.answer(found, request, io);
      },
    })),
    ...(policies && { policies: (env) => withRead((found) => policies(found, env)) ?? [] }),
    ...(passed && { passed: (object) => withRead((found) => passed(object, found)) }),
  };
}
