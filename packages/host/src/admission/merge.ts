/** Merges reviews of the same resource into one webhook: the API server then makes one call for each object. Pure. */
import type {
  LabelSelector,
  LabelSelectorRequirement,
  MatchCondition,
  MutatingWebhook,
  MutatingWebhookConfiguration,
} from "@berth/kube";
import type { Installed } from "../product.ts";
import { clientConfig, ownedMetadata, type WebhookClient } from "./objects.ts";
import type { AdmissionEnv, AskedWhen, BoundReview, BoundRules } from "./rules.ts";

/**
 * The API server refuses expressions of more than 100,000 characters. An evaluation with too many steps has no result.
 * Rules check the conditions themselves: match conditions only save calls.
 */
const MAX_EXPRESSION = 50_000;

/** The reviews of one webhook. The webhook has the path and name of the first review. */
export interface MergedReview {
  readonly review: BoundReview;
  readonly when: AskedWhen;
  readonly failurePolicy: "Ignore" | "Fail";
  /** Names of the rules that answer. */
  readonly of: readonly string[];
}

/** Does one call answer both? The caller compares their failure policies. */
export function areTogether(
  [{ effect }, a]: readonly [BoundRules, BoundReview],
  [other, b]: readonly [BoundRules, BoundReview],
): boolean {
  if (a.path === b.path) return true;
  if (a.alone || b.alone || effect !== other.effect) return false;
  return JSON.stringify(a.rule) === JSON.stringify(b.rule);
}

/** Merged reviews by the name of the rules. The first rules in the list that want a review carry it for the others. */
export function mergeReviews(
  all: readonly BoundRules[],
  env: AdmissionEnv,
): ReadonlyMap<string, readonly MergedReview[]> {
  const merged: { readonly rules: BoundRules; found: MergedReview }[] = [];
  for (const rules of all)
    for (const review of rules.reviews) {
      const when = review.when(env);
      if (when === undefined) continue;
      const failurePolicy = review.failurePolicy(env);
      const carrier = merged.find(
        (it) =>
          it.found.failurePolicy === failurePolicy &&
          it.rules !== rules &&
          areTogether([it.rules, it.found.review], [rules, review]),
      );
      if (carrier === undefined)
        merged.push({ rules, found: { review, when, failurePolicy, of: [rules.name] } });
      else
        carrier.found = {
          ...carrier.found,
          when: either(carrier.found.when, when),
          of: [...carrier.found.of, rules.name],
        };
    }
  return new Map(
    all.map((rules) => [rules.name, merged.filter((it) => it.rules === rules).map((it) => it.found)]),
  );
}

/** The webhook configuration for these reviews. Without reviews it has no webhooks. */
export function toConfiguration(
  { name, effect }: Pick<BoundRules, "name" | "effect">,
  reviews: readonly MergedReview[],
  at: Installed & WebhookClient,
): MutatingWebhookConfiguration {
  const webhooks = reviews.map(({ review, when, failurePolicy }): MutatingWebhook => {
    const { matchConditions = [], ...asked } = when;
    return {
      name: review.name.includes(".") ? review.name : `${review.name}.${name}.${at.product.domain}`,
      admissionReviewVersions: ["v1"],
      sideEffects: "None",
      matchPolicy: "Equivalent",
      ...(effect === "mutate" && { reinvocationPolicy: "IfNeeded" }),
      clientConfig: clientConfig(at, review.path),
      failurePolicy,
      rules: [review.rule],
      ...asked,
      matchConditions: matchConditions.filter(({ expression }) => expression.length <= MAX_EXPRESSION),
    };
  });
  return { metadata: ownedMetadata(at, name), webhooks };
}

/** Matches when at least one of the two matches. Selectors have no "or", so only their common requirements remain. */
function either(a: AskedWhen, b: AskedWhen): AskedWhen {
  const namespaceSelector = commonSelector(a.namespaceSelector, b.namespaceSelector);
  return {
    timeoutSeconds: Math.max(a.timeoutSeconds, b.timeoutSeconds),
    ...(namespaceSelector && { namespaceSelector }),
    matchConditions: eitherCondition(a.matchConditions ?? [], b.matchConditions ?? []),
  };
}

function commonSelector(
  a: LabelSelector | undefined,
  b: LabelSelector | undefined,
): LabelSelector | undefined {
  if (a === undefined || b === undefined) return undefined;
  const labels = Object.entries(a.matchLabels ?? {}).filter(([key, value]) => b.matchLabels?.[key] === value);
  const others = b.matchExpressions ?? [];
  return {
    ...(labels.length > 0 && { matchLabels: Object.fromEntries(labels) }),
    matchExpressions: (a.matchExpressions ?? []).flatMap((it) =>
      others.flatMap((other) => commonOf(it, other)),
    ),
  };
}

/** The requirements that both have. */
function commonOf(
  a: LabelSelectorRequirement,
  b: LabelSelectorRequirement,
): readonly LabelSelectorRequirement[] {
  if (JSON.stringify(a) === JSON.stringify(b)) return [a];
  if (a.key !== b.key || a.operator !== "NotIn" || b.operator !== "NotIn") return [];
  const values = (a.values ?? []).filter((value) => b.values?.includes(value));
  return values.length === 0 ? [] : [{ ...a, values }];
}

/** Keeps the conditions that both have. All other conditions of at least one side must hold. */
function eitherCondition(
  a: readonly MatchCondition[],
  b: readonly MatchCondition[],
): readonly MatchCondition[] {
  const isIn = (list: readonly MatchCondition[]) => (one: MatchCondition) =>
    list.some(({ name, expression }) => name === one.name && expression === one.expression);
  const [onlyA, onlyB] = [a.filter((it) => !isIn(b)(it)), b.filter((it) => !isIn(a)(it))];
  const common = a.filter(isIn(b));
  if (onlyA.length === 0 || onlyB.length === 0) return common;
  const all = (list: readonly MatchCondition[]): string =>
    list.map(({ expression }) => `(${expression})`).join(" && ");
  return [...common, { name: "either", expression: `(${all(onlyA)}) ||\n(${all(onlyB)})` }];
}
