/** Which calls an object costs, and what each is answered. Fields of the objects themselves are in the tests of capabilities. */
import { createSilentLogger } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { mergeReviews, toConfiguration } from "./merge.ts";
import { daemonSetRule, newPods, notNamed } from "./objects.ts";
import { reviewHandlers } from "./review.ts";
import {
  type AdmissionEnv,
  type AskedWhen,
  type BoundRules,
  bindAdmission,
  type ReviewRules,
} from "./rules.ts";
import { INSTALLED } from "./testing/shapes.ts";

const env: AdmissionEnv = { ...INSTALLED, spec: { failurePolicy: "Ignore" } };
type Answer = ReviewRules<{ readonly policy: object }>["answer"];

function rulesOf(
  name: string,
  {
    when = {},
    answer = () => ({ allowed: true }),
    isRead = true,
    name: named = "pods",
    effect = "mutate",
    ...review
  }: {
    readonly when?: Omit<AskedWhen, "timeoutSeconds"> | "never";
    readonly answer?: Answer;
    readonly isRead?: boolean;
    readonly effect?: BoundRules["effect"];
  } & Partial<Pick<ReviewRules<object>, "alone" | "name" | "rule" | "failurePolicy">> = {},
): BoundRules {
  const asked = when === "never" ? undefined : { timeoutSeconds: name.length, ...when };
  const one = { name: named, path: `/${name}`, rule: newPods, ...review, when: () => asked, answer };
  return bindAdmission({ name, effect, reviews: [one], texts: { asked: "asked", off: "off" } }, () =>
    isRead ? { policy: {} } : undefined,
  );
}

/** `configuration: path`. */
const callsOf = (...all: readonly BoundRules[]): readonly string[] =>
  [...mergeReviews(all, env)].flatMap(([name, reviews]) =>
    reviews.map(({ review }) => `${name}: ${review.path}`),
  );

const webhookOf = (...all: readonly [BoundRules, ...BoundRules[]]) => {
  const [first] = all;
  const reviews = mergeReviews(all, env).get(first.name) ?? [];
  return toConfiguration(first, reviews, { ...env, client: { url: "https://b" }, ca: "c" }).webhooks?.[0];
};

describe("reviews of one resource", () => {
  it("cost one call, in the configuration of the first that wants it", () => {
    expect(callsOf(rulesOf("a"), rulesOf("b"))).toEqual(["a: /a"]);
    expect(callsOf(rulesOf("a", { when: "never" }), rulesOf("b"))).toEqual(["b: /b"]);
  });

  it("have a webhook with the name of the rules, or with a whole name", () => {
    expect(webhookOf(rulesOf("a"))?.name).toBe("pods.a.berth.dev");
    expect(webhookOf(rulesOf("a", { name: "mpods.kb.io" }))?.name).toBe("mpods.kb.io");
  });

  it("are asked again after a patch only if they may patch, and cost a call for each effect", () => {
    expect(webhookOf(rulesOf("a"))).toHaveProperty("reinvocationPolicy", "IfNeeded");
    expect(webhookOf(rulesOf("a", { effect: "validate" }))).not.toHaveProperty("reinvocationPolicy");
    expect(callsOf(rulesOf("a"), rulesOf("b", { effect: "validate" }))).toEqual(["a: /a", "b: /b"]);
  });

  it("cost a call each where they fail differently, are alone, or are about another resource", () => {
    const both = ["a: /a", "b: /b"];
    expect(callsOf(rulesOf("a", { failurePolicy: () => "Fail" }), rulesOf("b"))).toEqual(both);
    expect(callsOf(rulesOf("a"), rulesOf("b", { alone: true }))).toEqual(both);
    expect(callsOf(rulesOf("a"), rulesOf("b", { rule: daemonSetRule }))).toEqual(both);
  });

  it("are asked for by what their selectors have in common, and by the conditions of either", () => {
    const condition = (name: string) => ({ name, expression: name });
    const a = rulesOf("aaa", {
      when: {
        namespaceSelector: { matchLabels: { team: "a" }, matchExpressions: [notNamed(["kube-system", "x"])] },
        matchConditions: ["common", "one", "two"].map(condition),
      },
    });
    const b = rulesOf("b", {
      when: {
        namespaceSelector: {
          matchExpressions: [notNamed(["kube-system", "y"]), { key: "z", operator: "Exists" }],
        },
        matchConditions: ["common", "three"].map(condition),
      },
    });
    expect(webhookOf(a, b)).toMatchObject({
      name: "pods.aaa.berth.dev",
      timeoutSeconds: 3,
      namespaceSelector: { matchExpressions: [notNamed(["kube-system"])] },
      matchConditions: [
        condition("common"),
        { name: "either", expression: "((one) && (two)) ||\n((three))" },
      ],
    });
    expect(webhookOf(a, b)?.namespaceSelector?.matchLabels).toBeUndefined();
    const always = rulesOf("c", { when: { matchConditions: [condition("common")] } });
    expect(webhookOf(a, always)?.matchConditions).toEqual([condition("common")]);
    expect(webhookOf(a, always)?.namespaceSelector).toBeUndefined();
  });
});

describe("the answer of several rules", () => {
  const append =
    (text: string): Answer =>
    (_, { object }) => {
      const { list } = object as { readonly list: readonly string[] };
      if (list.includes(text)) return { allowed: true };
      return { allowed: true, patch: [{ op: "add", path: "/list/-", value: text }] };
    };
  const ask = async (path: string, ...all: readonly BoundRules[]) => {
    const refuse = (): Promise<never> => Promise.reject(new Error("the server is asked"));
    const client = { list: refuse, create: refuse };
    const handlers = reviewHandlers(all, { client, env, log: createSilentLogger() });
    const request = {
      uid: "u",
      kind: { group: "", version: "v1", kind: "Pod" },
      resource: { group: "", version: "v1", resource: "pods" },
      operation: "CREATE",
      object: { list: [] },
    } as const;
    return handlers[path]?.(request, new AbortController());
  };
  const added = (...texts: readonly string[]) => ({
    allowed: true,
    patch: texts.map((value) => ({ op: "add", path: "/list/-", value })),
  });

  it("is one patch, at every path, each on the object as patched so far", async () => {
    const all = [rulesOf("a", { answer: append("a") }), rulesOf("b", { answer: append("b") })];
    for (const path of ["/a", "/b"]) expect(await ask(path, ...all)).toEqual(added("a", "b"));
    const alone = rulesOf("c", { answer: append("c"), alone: true });
    expect(await ask("/c", ...all, alone)).toEqual(added("c"));
  });

  it("has those asked again that answered before a patch of another", async () => {
    const seen: number[] = [];
    const counting: Answer = (_, { object }) => {
      seen.push((object as { readonly list: readonly string[] }).list.length);
      return { allowed: true };
    };
    await ask("/a", rulesOf("a", { answer: counting }), rulesOf("b", { answer: append("b") }));
    expect(seen).toEqual([0, 1]);
  });

  it("is the first denial", async () => {
    const deny: Answer = () => ({ allowed: false, message: "no" });
    const all = [rulesOf("a", { answer: append("a") }), rulesOf("b", { answer: deny })];
    expect(await ask("/a", ...all)).toEqual({ allowed: false, message: "no" });
  });

  it("is not taken away by one that fails, unless that one is strict or all fail", async () => {
    const answering = rulesOf("a", { answer: append("a") });
    const broken: Answer = () => {
      throw new Error("broken");
    };
    const failing = rulesOf("b", { answer: broken });
    const unread = rulesOf("b", { isRead: false });
    for (const other of [failing, unread])
      for (const all of [
        [answering, other],
        [other, answering],
      ])
        expect(await ask("/a", ...all)).toEqual(added("a"));
    const strict = rulesOf("b", { answer: broken, failurePolicy: () => "Fail" });
    await expect(ask("/a", answering, strict)).rejects.toThrow("broken");
    await expect(ask("/b", unread)).rejects.toThrow("the documents of b have not been read yet");
  });
});
