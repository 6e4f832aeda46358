/** Which webhooks stand for which reviews: reviews of one resource become one webhook, so that one object costs one call. Pure. */
import type {
  LabelSelector,
  LabelSelectorRequirement,
  MatchCondition,
  MutatingWebhook,
  MutatingWebhookConfiguration,
} from "@berth/kube";
import { clientConfig, ownedMetadata, type WebhookClient } from "./objects.ts";
import type { AdmissionEnv, AskedWhen, BoundReview, BoundRules } from "./rules.ts";

/**
 * The parser of the API server refuses expressions beyond 100,000 characters, and what takes too many steps counts as
 * undecided. Rules decide the same by themselves: conditions only spare questions.
 */
const MAX_EXPRESSION = 50_000;

/** Reviews that one webhook asks for: the first, whose path and name it has, and others that are answered with it. */
export interface MergedReview {
  readonly review: BoundReview;
  readonly when: AskedWhen;
  readonly failurePolicy: "Ignore" | "Fail";
  /** Names of the rules that are answered. */
  readonly of: readonly string[];
}

/** Are these answered together, as far as the API server lets them fail together? */
export function areTogether(
  [{ effect }, a]: readonly [BoundRules, BoundReview],
  [other, b]: readonly [BoundRules, BoundReview],
): boolean {
  if (a.path === b.path) return true;
  if (a.alone || b.alone || effect !== other.effect) return false;
  return JSON.stringify(a.rule) === JSON.stringify(b.rule);
}

/** By the name of the rules whose configuration has them: the first in the list that wants a review carries the others. */
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

/** The configuration by which the API server asks for these reviews; without any it has no webhooks. */
export function toConfiguration(
  { name, effect }: Pick<BoundRules, "name" | "effect">,
  reviews: readonly MergedReview[],
  at: Pick<AdmissionEnv, "installation"> & WebhookClient,
): MutatingWebhookConfiguration {
  const webhooks = reviews.map(({ review, when, failurePolicy }): MutatingWebhook => {
    const { matchConditions = [], ...asked } = when;
    return {
      name: `${review.name}.${name}.berth.dev`,
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
  return { metadata: ownedMetadata(at.installation, name), webhooks };
}

/** When at least one is asked. One selector cannot say "this or that", so selectors come down to what they have in common. */
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

/** What both exclude. */
function commonOf(
  a: LabelSelectorRequirement,
  b: LabelSelectorRequirement,
): readonly LabelSelectorRequirement[] {
  if (JSON.stringify(a) === JSON.stringify(b)) return [a];
  if (a.key !== b.key || a.operator !== "NotIn" || b.operator !== "NotIn") return [];
  const values = (a.values ?? []).filter((value) => b.values?.includes(value));
  return values.length === 0 ? [] : [{ ...a, values }];
}

/** Conditions that both have stay as they are; of the others one side has to hold. */
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
