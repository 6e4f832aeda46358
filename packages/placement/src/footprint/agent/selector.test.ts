import { applyPatch } from "@berth/host";
import type { DaemonSet, Node, NodeSelectorTerm, PodSpec } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun } from "../../../../runtime/src/testing/property.ts";
import { expectation } from "../../node/daemonset-placement.ts";
import { SELECTOR_ANNOTATION, selectorPatch, staysAway, withoutSelector } from "./selector.ts";

const KEY = "ate.dev/atelet";
type Target = Parameters<typeof selectorPatch>[1];
const lazy: Target = { label: { key: KEY, value: "true" } };

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

function followed(daemonSet: DaemonSet, target: Target): DaemonSet {
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
  it.each<[boolean, string, Partial<PodSpec>]>([
    [false, "asks for nothing", {}],
    [true, "has the label in its node selector", { nodeSelector: { [KEY]: "true" } }],
    [false, "asks for another value", { nodeSelector: { [KEY]: "yes" } }],
    [false, "asks for another label", { nodeSelector: { other: "true" } }],
    [true, "has the label in its affinity", required(term("In", "true"))],
    [true, "asks that the label exists", required(term("Exists"))],
    [false, "has it in one of two alternatives", required(term("In", "true"), linux())],
    [false, "asks not to be on idle nodes", required(term("NotIn", "false"))],
    [true, "has the label, beside a term that holds nowhere", required({}, term("In", "true"))],
  ])("is %s when it %s", (expected, _, spec) => {
    expect(staysAway(spec, lazy)).toBe(expected);
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

  it("is none for a DaemonSet that has not been read as a whole", () => {
    expect(selectorPatch({ metadata: { name: "atelet" } }, lazy)).toBeUndefined();
  });

  it("places an agent that had no wishes exactly where it is to be", () => {
    expect(placesOf(daemonSetOf())).toEqual(["needed", "idle", "unlabelled"]);
    expect(placesOf(followed(daemonSetOf(), lazy))).toEqual(["needed"]);
  });

  describe("of a label that has come to be another", () => {
    const OLD = "ate.dev/old";
    const selectorOf = ({ metadata, spec }: DaemonSet): readonly unknown[] => [
      spec?.template.spec?.nodeSelector,
      metadata?.annotations?.[SELECTOR_ANNOTATION],
    ];

    it.each<[string, Target, Partial<PodSpec>, unknown]>([
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
      expect(selectorOf(first)[1]).toBe(`${OLD}=true`);
      expect(selectorOf(followed(first, lazy))).toEqual([{ [KEY]: "true" }, `${KEY}=true`]);
      const other = { ...lazy, label: { key: OLD, value: "other" } };
      expect(selectorOf(followed(first, other))).toEqual([{ [OLD]: "other" }, `${OLD}=other`]);
      const theirs = daemonSetOf({ nodeSelector: { [OLD]: "true", [KEY]: "true" } }, `${OLD}=true`);
      expect(selectorOf(followed(theirs, lazy))).toEqual([{ [KEY]: "true" }, undefined]);
      const corrected = followed(daemonSetOf({ nodeSelector: { [KEY]: "yes" } }), lazy);
      expect(selectorOf(corrected)[1]).toBeUndefined();
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
        fc.property(spec, (stands) => {
          const before = daemonSetOf(stands);
          const after = followed(before, lazy);
          expect(selectorPatch(after, lazy)).toBeUndefined();
          expect(staysAway(after.spec?.template.spec, lazy)).toBe(true);
          expect(placesOf(after)).not.toContain("unlabelled");
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

  it("is taken back, beside another selector", () => {
    const before = daemonSetOf({ nodeSelector: { os: "linux" } });
    expect(cleaned(followed(before, lazy))).toEqual(before);
  });

  it("is nothing without a record", () => {
    expect(withoutSelector(daemonSetOf({ nodeSelector: { [KEY]: "true" } }))).toBeUndefined();
  });
});
