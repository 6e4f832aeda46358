/** The admission rules of a capability: the objects that the API server asks about, and the answers. */
import type {
  KubeObject,
  LabelSelector,
  MatchCondition,
  MutatingAdmissionPolicy,
  MutatingAdmissionPolicyBinding,
  NamedRuleWithOperations,
  SubjectAccessReviewSpec,
} from "@berth/kube";
import type { AdmissionAnswer, AdmissionRequest } from "@berth/runtime";
import type { Installed } from "../product.ts";
import type { AdmissionServerSpec } from "./settings.ts";

/** When Berth does not answer: `Ignore` stores the object unchanged, `Fail` refuses it. */
export type FailurePolicy = "Ignore" | "Fail";

/** The facts of the installation that rules may use. */
export interface AdmissionEnv extends Installed {
  /** The installation's own namespace, whose pods must start while no replica answers. Absent outside a cluster. */
  readonly namespace?: string;
  readonly spec: Pick<AdmissionServerSpec, "failurePolicy" | "podFailurePolicy">;
}

/** When the API server asks. Unless the review is `alone`, these conditions only save calls. */
export interface AskedWhen {
  /** How long the API server waits for a replica that accepts the connection but does not answer. */
  readonly timeoutSeconds: number;
  readonly namespaceSelector?: LabelSelector;
  readonly matchConditions?: readonly MatchCondition[];
}

/** Whether a user may do something. */
export interface Access {
  /**
   * `failed`: the API server did not answer. `busy`: this user or namespace has asked too much, and must ask
   * again. The authorizer's own words are for its operator alone.
   */
  readonly kind: "allowed" | "denied" | "failed" | "busy";
}

/** What an answer may ask the API server. */
export interface ReviewIo {
  /**
   * May this user do this? Takes up to 2 s, and needs the permission to create `subjectaccessreviews`. To ask about the
   * user of the review, pass all of its username, groups, uid and extra. The sender of a forged review learns the
   * answer too. Ask one question at a time: a user has few open at once. An answer counts for 3 s.
   */
  accessReview(spec: SubjectAccessReviewSpec): Promise<Access>;
  /** Labels of a namespace that no watch has shown yet, bounded as `accessReview`. `undefined`: not found or not read. */
  namespaceLabels(name: string): Promise<Readonly<Record<string, string>> | undefined>;
}

/** One question of the API server. `C` is the compiled form of the documents. */
export interface ReviewRules<C> {
  /** The webhook's name. Without a dot it is a part of it: `pods` becomes `pods.<name of the rules>.<domain>`. */
  readonly name: string;
  readonly path: string;
  /** Berth merges reviews with equal rules and failure policies into one webhook. */
  readonly rule: NamedRuleWithOperations;
  /** The answer relies on the selectors of `when`, so the review is never merged with another. Default false. */
  readonly alone?: true;
  /** Default `Ignore`. */
  readonly failurePolicy?: (env: AdmissionEnv) => FailurePolicy;
  /** `undefined`: the API server does not need to ask. */
  readonly when: (inForce: C, env: AdmissionEnv) => AskedWhen | undefined;
  /**
   * Answers from memory. Called again when a later rule has patched the object. The second answer only adds what was
   * not known the first time. If it throws, the failure policy decides.
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

/** Reviews of one capability that share a configuration. */
export interface AdmissionRules<C> {
  /** Name of the configuration, `<product>-<name>`, and the `app.kubernetes.io/component` label of all its objects. */
  readonly name: string;
  /** `validate`: by a ValidatingWebhookConfiguration, after all patches of others. The answers have no patch. */
  readonly effect: "mutate" | "validate";
  readonly reviews: readonly ReviewRules<C>[];
  /**
   * The same rules in CEL, which the API server evaluates itself. The host uses policies or the webhook, never both.
   * Rules with policies may adopt a webhook configuration of another product.
   */
  readonly policies?: (inForce: C, env: AdmissionEnv) => readonly PolicyPair[];
  /** `asked` and `byPolicy` say that admission works. `off` says what follows when the API server does not ask: the host says why. */
  readonly texts: {
    readonly asked: string;
    readonly byPolicy?: string;
    readonly off: string;
  };
  /**
   * Did a new object pass admission? A sentence means no, and says what to check. `undefined`: the object would look
   * the same either way.
   */
  passed?(this: void, object: KubeObject, inForce: C): true | string | undefined;
}

/** The state of the compiled documents. */
export interface InForce {
  /** `isReading`: a source is still being read. `isUndecided`: existing objects may belong to missing documents. */
  readonly policy: { readonly isUndecided?: true; readonly isReading?: true };
}

/** Rules bound to the documents in force. */
export interface BoundRules extends Pick<AdmissionRules<never>, "name" | "effect" | "texts"> {
  /** `unread`: no document yet. `reading`: not complete yet. `undecided`: existing objects must not be changed. */
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
  /** Caches the result of `when` while the documents are the same: every review needs it. */
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
