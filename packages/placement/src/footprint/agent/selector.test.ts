import type { DaemonSet, Node, NodeSelectorTerm, PodSpec } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun } from "../../../../runtime/src/testing/property.ts";
import { expectation } from "../../node/daemonset-placement.ts";
import { applyPatch } from "../../node/testing/json-patch.ts";
import {
  type AgentTarget,
  recordedLabel,
  SELECTOR_ANNOTATION,
  selectorPatch,
  staysAway,
  withoutSelector,
} from "./selector.ts";

const KEY = "ate.dev/atelet";
const lazy: AgentTarget = { label: { key: KEY, value: "true" }, placement: "Lazy" };
const eager: AgentTarget = { ...lazy, placement: "Eager" };
const targets = [lazy, eager];

/** @param record what Berth has put into its node selector, if anything. */
function daemonSetOf(spec: Partial<PodSpec> = {}, record?: string): DaemonSet {
  const annotations = { theirs: "1", ...(record !== undefined && { [SELECTOR_ANNOTATION]: record }) };
  return {
    metadata: { namespace: "ate-system", name: "atelet", uid: "u1", resourceVersion: "7", annotations },
    spec: {
      selector: { matchLabels: { app: "atelet" } },
      template: { spec: { containers: [{ name: "atelet" }], ...spec } },
    },
  };
}

const required = (...nodeSelectorTerms: readonly NodeSelectorTerm[]): Partial<PodSpec> => ({
  affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } },
});
const term = (operator: string, ...values: readonly string[]): NodeSelectorTerm => ({
  matchExpressions: [{ key: KEY, operator, ...(values.length > 0 && { values }) }],
});
/** A new one each time, as objects of a server share nothing. */
const linux = (): NodeSelectorTerm => ({
  matchExpressions: [{ key: "kubernetes.io/os", operator: "In", values: ["linux"] }],
});

function followed(daemonSet: DaemonSet, target: AgentTarget): DaemonSet {
  const patch = selectorPatch(daemonSet, target);
  return patch === undefined ? daemonSet : (applyPatch(daemonSet, patch) as DaemonSet);
}

/** Where it runs, of nodes with the label, idle ones and those not known yet. */
function placesOf(daemonSet: DaemonSet): readonly string[] {
  const nodes: Readonly<Record<string, Node>> = {
    needed: { metadata: { name: "n", labels: { [KEY]: "true", "kubernetes.io/os": "linux" } } },
    idle: { metadata: { name: "n", labels: { [KEY]: "false", "kubernetes.io/os": "linux" } } },
    unlabelled: { metadata: { name: "n", labels: { "kubernetes.io/os": "linux" } } },
  };
  return Object.entries(nodes)
    .filter(([, node]) => expectation(daemonSet, node, []).state === "expected")
    .map(([place]) => place);
}

describe("whether an agent stays away from idle nodes", () => {
  it.each<[boolean, AgentTarget["placement"], string, Partial<PodSpec>]>([
    [false, "Lazy", "asks for nothing", {}],
    [true, "Lazy", "has the label in its node selector", { nodeSelector: { [KEY]: "true" } }],
    [false, "Lazy", "asks for another value", { nodeSelector: { [KEY]: "yes" } }],
    [false, "Lazy", "asks for another label", { nodeSelector: { other: "true" } }],
    [true, "Lazy", "has the label in its affinity", required(term("In", "true"))],
    [true, "Lazy", "asks that the label exists", required(term("Exists"))],
    [false, "Lazy", "has it in one of two alternatives", required(term("In", "true"), linux())],
    [false, "Lazy", "asks not to be on idle nodes", required(term("NotIn", "false"))],
    [true, "Eager", "asks not to be on idle nodes", required(term("NotIn", "false", "no"))],
    [false, "Eager", "shuns nodes that need it", required(term("NotIn", "true"))],
    [
      false,
      "Eager",
      "shuns idle nodes in one of two alternatives",
      required(term("NotIn", "false"), linux()),
    ],
    [true, "Eager", "has the label in its node selector", { nodeSelector: { [KEY]: "true" } }],
    [false, "Eager", "has no terms", required()],
    [
      true,
      "Eager",
      "shuns idle nodes, beside a term that holds nowhere",
      required(term("NotIn", "false"), {}),
    ],
    [true, "Lazy", "has the label, beside a term that holds nowhere", required({}, term("In", "true"))],
    [true, "Eager", "runs nowhere", required({ matchExpressions: [] })],
  ])("is %s with %s when it %s", (expected, placement, _, spec) => {
    expect(staysAway(spec, { ...lazy, placement })).toBe(expected);
  });

  it("is no for a template without a spec", () => {
    expect(staysAway(undefined, lazy)).toBe(false);
  });
});

describe("the patch that makes an agent follow", () => {
  it("is bound to the DaemonSet and its version, and adds to the node selector", () => {
    expect(selectorPatch(daemonSetOf({ nodeSelector: { os: "linux" } }), lazy)).toEqual([
      { op: "test", path: "/metadata/uid", value: "u1" },
      { op: "test", path: "/metadata/resourceVersion", value: "7" },
      { op: "add", path: "/spec/template/spec/nodeSelector/ate.dev~1atelet", value: "true" },
      { op: "add", path: "/metadata/annotations/berth.dev~1node-selector", value: "ate.dev/atelet=true" },
    ]);
    expect(followed(daemonSetOf({ nodeSelector: { os: "linux" } }), lazy).spec?.template.spec).toMatchObject({
      nodeSelector: { os: "linux", [KEY]: "true" },
    });
  });

  it("corrects another value of its own label", () => {
    expect(followed(daemonSetOf({ nodeSelector: { [KEY]: "yes" } }), lazy).spec?.template.spec).toMatchObject(
      {
        nodeSelector: { [KEY]: "true" },
      },
    );
  });

  it("adds to each alternative of the affinity with Eager, and keeps all else of it", () => {
    const preferred = {
      preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, preference: linux() }],
    };
    const spec: Partial<PodSpec> = {
      affinity: {
        podAffinity: {},
        nodeAffinity: {
          ...preferred,
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [
              linux(),
              { matchFields: [{ key: "metadata.name", operator: "In", values: ["n"] }] },
              term("NotIn", "false"),
            ],
          },
        },
      },
    };
    const after = followed(daemonSetOf(spec), eager).spec?.template.spec?.affinity;
    expect(after?.podAffinity).toEqual({});
    expect(after?.nodeAffinity).toMatchObject(preferred);
    const shun = { key: KEY, operator: "NotIn", values: ["false"] };
    expect(after?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms).toEqual([
      { matchExpressions: [...(linux().matchExpressions ?? []), shun] },
      {
        matchFields: [{ key: "metadata.name", operator: "In", values: ["n"] }],
        matchExpressions: [shun],
      },
      term("NotIn", "false"),
    ]);
  });

  it("leaves a term as it is that holds nowhere: with anything in it, it would hold nearly everywhere", () => {
    const nowhere = daemonSetOf(required({}, { matchExpressions: [] }));
    expect(placesOf(nowhere)).toEqual([]);
    expect(selectorPatch(nowhere, eager)).toBeUndefined();
    const some = daemonSetOf(required({}, term("In", "true")));
    expect(placesOf(followed(some, eager))).toEqual(["needed"]);
  });

  it("keeps what stands beside an absent node affinity", () => {
    const after = followed(daemonSetOf({ affinity: { podAntiAffinity: {} } }), eager);
    expect(after.spec?.template.spec?.affinity).toMatchObject({ podAntiAffinity: {}, nodeAffinity: {} });
  });

  it("widens one that was lazy before", () => {
    const before = followed(daemonSetOf({ nodeSelector: { os: "linux" } }), lazy);
    const after = followed(before, eager).spec?.template.spec;
    expect(after?.nodeSelector).toEqual({ os: "linux" });
    expect(staysAway(after, eager)).toBe(true);
  });

  it("widens one that was lazy before and asked for another value, where Berth has put that there", () => {
    const before = followed(daemonSetOf({ nodeSelector: { os: "linux" } }), lazy);
    const other: AgentTarget = { ...eager, label: { key: KEY, value: "yes" } };
    const after = followed(before, other);
    expect(after.spec?.template.spec?.nodeSelector).toEqual({ os: "linux" });
    expect(staysAway(after.spec?.template.spec, other)).toBe(true);
    expect(recordedLabel(after)).toBeUndefined();
    expect(selectorPatch(after, other)).toBeUndefined();
    // What a person or a manifest asks for beyond that is theirs.
    const theirs = followed(daemonSetOf({ nodeSelector: { [KEY]: "true" } }), other);
    expect(theirs.spec?.template.spec?.nodeSelector).toEqual({ [KEY]: "true" });
  });

  it("is none for a DaemonSet that has not been read as a whole", () => {
    expect(selectorPatch({ metadata: { name: "atelet" } }, lazy)).toBeUndefined();
  });

  it("places an agent that had no wishes exactly where it is to be", () => {
    expect(placesOf(daemonSetOf())).toEqual(["needed", "idle", "unlabelled"]);
    expect(placesOf(followed(daemonSetOf(), lazy))).toEqual(["needed"]);
    expect(placesOf(followed(daemonSetOf(), eager))).toEqual(["needed", "unlabelled"]);
  });

  describe("of a label that has come to be another", () => {
    const OLD = "ate.dev/old";
    const selectorOf = ({ metadata, spec }: DaemonSet): readonly unknown[] => [
      spec?.template.spec?.nodeSelector,
      metadata?.annotations?.[SELECTOR_ANNOTATION],
    ];

    it.each<[string, AgentTarget, Partial<PodSpec>, unknown]>([
      [
        "is put in its place",
        lazy,
        { nodeSelector: { [OLD]: "true", os: "linux" } },
        { os: "linux", [KEY]: "true" },
      ],
      [
        "is taken away where the new one stands",
        lazy,
        { nodeSelector: { [OLD]: "true", [KEY]: "true" } },
        { [KEY]: "true" },
      ],
      ["is taken away with Eager as well", eager, { nodeSelector: { [OLD]: "true" } }, {}],
    ])("%s where Berth has put it there", (_, target, spec, expected) => {
      const after = followed(daemonSetOf(spec, `${OLD}=true`), target);
      expect(selectorOf(after)[0]).toEqual(expected);
      expect(selectorPatch(after, target)).toBeUndefined();
    });

    it.each<[string, string | undefined, Readonly<Record<string, string>>]>([
      ["nothing says who has put it there", undefined, { [OLD]: "true" }],
      ["it stands with another value than Berth gave it", `${OLD}=true`, { [OLD]: "yes" }],
      ["what Berth has put there is something else", "ate.dev/other=true", { [OLD]: "true" }],
      ["what Berth has put there cannot be read", OLD, { [OLD]: "true" }],
    ])("stays where %s", (_, record, nodeSelector) => {
      const after = followed(daemonSetOf({ nodeSelector }, record), lazy);
      expect(selectorOf(after)).toEqual([{ ...nodeSelector, [KEY]: "true" }, `${KEY}=true`]);
    });

    it("is Berth's own with each next one, and no more once somebody has taken the new one in", () => {
      const first = followed(daemonSetOf(), { ...lazy, label: { key: OLD, value: "true" } });
      expect(recordedLabel(first)).toEqual({ key: OLD, value: "true" });
      expect(selectorOf(followed(first, lazy))).toEqual([{ [KEY]: "true" }, `${KEY}=true`]);
      const other = { ...lazy, label: { key: OLD, value: "other" } };
      expect(selectorOf(followed(first, other))).toEqual([{ [OLD]: "other" }, `${OLD}=other`]);
      const theirs = daemonSetOf({ nodeSelector: { [OLD]: "true", [KEY]: "true" } }, `${OLD}=true`);
      expect(selectorOf(followed(theirs, lazy))).toEqual([{ [KEY]: "true" }, undefined]);
      const corrected = followed(daemonSetOf({ nodeSelector: { [KEY]: "yes" } }), lazy);
      expect(recordedLabel(corrected)).toBeUndefined();
    });
  });

  const run = seededRun(500, process.env);
  it(
    `is settled by one, and takes the agent off idle nodes only, whatever stands (${run.name})`,
    run.options,
    () => {
      const requirement = fc.record({
        key: fc.constantFrom(KEY, "kubernetes.io/os"),
        operator: fc.constantFrom("In", "NotIn"),
        values: fc.uniqueArray(fc.constantFrom("true", "false", "linux"), { minLength: 1 }),
      });
      const terms = fc.array(
        fc.oneof(
          { weight: 1, arbitrary: fc.constant({}) },
          { weight: 4, arbitrary: fc.record({ matchExpressions: fc.array(requirement, { maxLength: 3 }) }) },
        ),
        { minLength: 1, maxLength: 3 },
      );
      const selector = fc.dictionary(
        fc.constantFrom(KEY, "kubernetes.io/os"),
        fc.constantFrom("true", "linux"),
      );
      const chosen = fc.oneof(
        fc.constant({}),
        selector.map((nodeSelector) => ({ nodeSelector })),
      );
      const wished = fc.oneof(
        fc.constant({}),
        terms.map((some) => required(...some)),
      );
      const spec = fc.tuple(chosen, wished).map(([a, b]) => Object.assign({}, a, b));
      fc.assert(
        fc.property(spec, fc.constantFrom(...targets), (stands, target) => {
          const before = daemonSetOf(stands);
          const after = followed(before, target);
          expect(selectorPatch(after, target)).toBeUndefined();
          expect(staysAway(after.spec?.template.spec, target)).toBe(true);
          expect(placesOf(after)).not.toContain(target.placement === "Lazy" ? "unlabelled" : "idle");
          const needed = (daemonSet: DaemonSet): boolean => placesOf(daemonSet).includes("needed");
          expect(!needed(before) || needed(after)).toBe(true);
          // What stands of its own key in the node selector is corrected, or goes.
          const hasOwn = KEY in (before.spec?.template.spec?.nodeSelector ?? {});
          const gained = new Set(placesOf(after)).difference(new Set(placesOf(before)));
          expect(hasOwn || gained.size === 0).toBe(true);
        }),
        run.parameters,
      );
    },
  );
});

describe("I-4 what Berth has added to the template of an agent", () => {
  const cleaned = (after: DaemonSet): DaemonSet =>
    applyPatch(after, withoutSelector(after) ?? []) as DaemonSet;
  const fields = { key: "metadata.name", operator: "In", values: ["n"] };

  it.each<[string, Partial<PodSpec>]>([
    ["no affinity", {}],
    ["a term", required(linux())],
    ["several terms", required(linux(), { matchFields: [fields] })],
    [
      "preferences",
      {
        affinity: { podAffinity: {}, nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } },
      },
    ],
    ["affinity of pods", { affinity: { podAffinity: {} } }],
  ])("is taken back with Eager, beside %s", (_, spec) => {
    const before = daemonSetOf(spec);
    const after = followed(before, eager);
    expect(staysAway(after.spec?.template.spec, eager)).toBe(true);
    expect(cleaned(after)).toEqual(before);
  });

  it("is taken back with Lazy, beside another selector", () => {
    const before = daemonSetOf({ nodeSelector: { os: "linux" } });
    expect(cleaned(followed(before, lazy))).toEqual(before);
  });

  it("is nothing without a record", () => {
    expect(withoutSelector(daemonSetOf({ nodeSelector: { [KEY]: "true" } }))).toBeUndefined();
    expect(withoutSelector(daemonSetOf(required(term("NotIn", "false"))))).toBeUndefined();
  });
});
