import { applyPatch } from "@berth/host";
import type { Affinity, Node, NodeSelectorRequirement, PodSpec } from "@berth/kube";
import { aNode } from "@berth/testcluster";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { matchesNodeSelectorTerms } from "../node/selector.ts";
import { narrowAffinity } from "./affinity.ts";
import { arch, os, PREFERRED, REQUIRED, requiringTerms as requiring } from "./testing/specs.ts";

const zone: NodeSelectorRequirement = { key: "zone", operator: "In", values: ["a"] };
const both = { os: "linux", architectures: ["amd64", "arm64"] };
const prefer = [
  { architecture: "arm64", weight: 50 },
  { architecture: "s390x", weight: 9 },
];
type Spec = Pick<PodSpec, "affinity" | "nodeSelector">;

function after(spec: Spec, narrowing: typeof both = both, preferences: typeof prefer = []): Spec {
  const patched = applyPatch({ spec }, narrowAffinity(spec, narrowing, preferences));
  return (patched as { readonly spec: Spec }).spec;
}

const ours = [arch("amd64", "arm64"), os];
const own = { weight: 50, preference: { matchExpressions: [arch("arm64")] } };
const preferred = ({ affinity }: Spec): unknown => affinity?.nodeAffinity?.[PREFERRED];

describe("A-B11 required node affinity", () => {
  it("is made where there is none, in as little as it takes", () => {
    const required = { nodeSelectorTerms: [{ matchExpressions: ours }] };
    const nodeAffinity = { [REQUIRED]: required };
    const patch = (spec: object): unknown => narrowAffinity(spec, both, []);
    for (const [spec, path, value] of [
      [{}, "/spec/affinity", { nodeAffinity }],
      [{ affinity: null }, "/spec/affinity", { nodeAffinity }],
      [{ affinity: { podAffinity: {} } }, "/spec/affinity/nodeAffinity", nodeAffinity],
      [{ affinity: { nodeAffinity: {} } }, `/spec/affinity/nodeAffinity/${REQUIRED}`, required],
    ] as const)
      expect(patch(spec)).toEqual([{ op: "add", path, value }]);
  });

  it("that a user gave is narrowed in each of its terms, and gets no further one", () => {
    const fields = { matchFields: [{ key: "metadata.name", operator: "In", values: ["n"] }] };
    const spec = requiring({ matchExpressions: [zone] }, fields, {}, { matchExpressions: [] });
    const narrowed = [{ matchExpressions: [zone, ...ours] }, { ...fields, matchExpressions: ours }];
    expect(after(spec)).toEqual(requiring(...narrowed, {}, { matchExpressions: [] }));
  });

  it.each<readonly [string, NodeSelectorRequirement, boolean]>([
    ["the same", arch("arm64", "amd64"), true],
    ["less", arch("arm64"), true],
    ["more", arch("amd64", "arm64", "s390x"), false],
    ["nothing by an empty list", arch(), false],
    ["something else", { ...arch("amd64"), operator: "NotIn" }, false],
  ])("that says %s already stays: %j", (_, standing, isEnough) => {
    const spec = requiring({ matchExpressions: [standing, os] });
    const narrowed = requiring({ matchExpressions: [standing, os, arch("amd64", "arm64")] });
    expect(after(spec)).toEqual(isEnough ? spec : narrowed);
  });

  it("does not repeat the node selector", () => {
    const nodeSelector = { "kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux" };
    expect(narrowAffinity({ nodeSelector }, both, prefer)).toEqual([]);
    const inZone = requiring({ matchExpressions: [zone] });
    expect(narrowAffinity({ nodeSelector, ...inZone }, both, [])).toEqual([]);
    const { "kubernetes.io/os": _, ...onlyArch } = nodeSelector;
    expect(after({ nodeSelector: onlyArch }).affinity).toEqual(
      requiring({ matchExpressions: [os] }).affinity,
    );
    const elsewhere = after({ nodeSelector: { "kubernetes.io/arch": "s390x" } });
    expect(elsewhere.affinity).toEqual(requiring({ matchExpressions: ours }).affinity);
  });

  it("is narrowed again when there is less in common", () => {
    const twice = after(after({}, both), { os: "linux", architectures: ["arm64"] });
    expect(twice).toEqual(requiring({ matchExpressions: [...ours, arch("arm64")] }));
  });
});

describe("preferences between architectures", () => {
  const theirs = { weight: 10, preference: { matchExpressions: [zone] } };

  it("are appended to those of the user, once, as far as the pod runs there", () => {
    expect(preferred(after({}, both, prefer))).toEqual([own]);
    const spec: Spec = { affinity: { nodeAffinity: { [PREFERRED]: [theirs] } } };
    const once = after(spec, both, prefer);
    expect(preferred(once)).toEqual([theirs, own]);
    expect(narrowAffinity(once, both, prefer)).toEqual([]);
    const required = requiring({ matchExpressions: [zone] });
    expect(preferred(after(required, both, prefer))).toEqual([own]);
  });

  it.each<readonly [string, NodeSelectorRequirement]>([
    ["another architecture", arch("amd64")],
    ["the same architecture by another weight", arch("arm64")],
    ["an architecture to avoid", { ...arch("arm64"), operator: "NotIn" }],
    ["an architecture by its former label", { ...arch("amd64"), key: "beta.kubernetes.io/arch" }],
  ])("I-11 are left out where the pod prefers %s", (_, standing) => {
    const its = { weight: 1, preference: { matchExpressions: [zone, standing] } };
    const spec: Spec = { affinity: { nodeAffinity: { [PREFERRED]: [theirs, its] } } };
    expect(preferred(after(spec, both, prefer))).toEqual([theirs, its]);
    expect(after(spec, both, prefer)).toEqual(after(spec, both));
  });

  it("are left out where one architecture remains", () => {
    expect(preferred(after({}, { os: "linux", architectures: ["arm64"] }, prefer))).toBeUndefined();
  });
});

describe("I-11 a pod that requires architectures itself", () => {
  it("prefers only between those that it can go to", () => {
    expect(preferred(after(requiring({ matchExpressions: [arch("amd64")] }), both, prefer))).toBeUndefined();
    const spec = requiring({ matchExpressions: [arch("amd64", "arm64", "s390x")] });
    expect(preferred(after(spec, both, prefer))).toEqual([own]);
  });

  it("is left alone but for preferences where there is no narrowing, as multiarch-tuning-operator does", () => {
    const left = (spec: Spec): Spec =>
      (applyPatch({ spec }, narrowAffinity(spec, undefined, prefer)) as { readonly spec: Spec }).spec;
    const spec = requiring({ matchExpressions: [arch("amd64", "arm64")] });
    const { affinity } = left(spec);
    expect(affinity?.nodeAffinity).toEqual({ ...spec.affinity?.nodeAffinity, [PREFERRED]: [own] });
    const selecting = { nodeSelector: { "kubernetes.io/arch": "arm64" } };
    expect(left(selecting)).toEqual(selecting);
  });
});

describe("whatever the affinity of a pod", () => {
  const labels = {
    "kubernetes.io/arch": ["amd64", "arm64", "s390x"],
    "kubernetes.io/os": ["linux", "windows"],
    zone: ["a", "b"],
  };
  const any = { requiredKeys: [] };
  const anyKey = fc.constantFrom<keyof typeof labels>("kubernetes.io/arch", "kubernetes.io/os", "zone");
  const requirement = anyKey.chain((key) => {
    const values = fc.subarray(labels[key], { minLength: 1 });
    return fc.record({ key: fc.constant(key), operator: fc.constantFrom("In", "NotIn"), values });
  });
  const field = fc
    .constantFrom("n", "m")
    .map((name) => ({ key: "metadata.name", operator: "In", values: [name] }));
  const matchExpressions = fc.array(requirement, { maxLength: 2 });
  const term = fc.record({ matchExpressions, matchFields: fc.array(field, { maxLength: 1 }) }, any);
  const required = fc.record({ nodeSelectorTerms: fc.array(term, { minLength: 1, maxLength: 3 }) });
  const preferring = fc.array(fc.record({ weight: fc.nat(9), preference: term }), { maxLength: 2 });
  const nodeAffinity = fc.record({ [REQUIRED]: required, [PREFERRED]: preferring }, any);
  const affinity: fc.Arbitrary<Affinity> = fc.record({ nodeAffinity, podAffinity: fc.constant({}) }, any);
  const oneArch = fc.constantFrom(...labels["kubernetes.io/arch"]);
  const oneOs = fc.constantFrom(...labels["kubernetes.io/os"]);
  const nodeSelector = fc.record({ "kubernetes.io/arch": oneArch, "kubernetes.io/os": oneOs }, any);
  const spec = fc.record({ affinity, nodeSelector }, any);
  const narrowing = fc.record({
    os: fc.constantFrom("linux", "windows"),
    architectures: fc.subarray(["amd64", "arm64", "s390x"], { minLength: 1 }),
  });
  const nodes = labels["kubernetes.io/arch"].flatMap((arch_) =>
    labels["kubernetes.io/os"].flatMap((os_) =>
      labels.zone.map((zone_) =>
        aNode("n").labelled({ "kubernetes.io/arch": arch_, "kubernetes.io/os": os_, zone: zone_ }).build(),
      ),
    ),
  );
  const runsOn = ({ affinity: it, nodeSelector = {} }: Spec, node: Node): boolean => {
    const its = it?.nodeAffinity?.[REQUIRED];
    const has = node.metadata?.labels ?? {};
    return (
      Object.entries(nodeSelector).every(([key, value]) => has[key] === value) &&
      (its === undefined || matchesNodeSelectorTerms(its.nodeSelectorTerms, node))
    );
  };

  it("afterwards it matches exactly what it matched before and the verdict allows", () => {
    fc.assert(
      fc.property(spec, narrowing, (before, wanted) => {
        const patched = after(before, wanted, prefer);
        for (const node of nodes) {
          const { "kubernetes.io/arch": on = "", "kubernetes.io/os": system } = node.metadata?.labels ?? {};
          const isWanted = wanted.architectures.includes(on) && wanted.os === system;
          expect(runsOn(patched, node)).toBe(runsOn(before, node) && isWanted);
        }
        expect(narrowAffinity(patched, wanted, prefer)).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });

  it("and everything that stood in it stands, in its order", () => {
    fc.assert(
      fc.property(spec, narrowing, (before, wanted) => {
        const patched = after(before, wanted, prefer);
        const terms = before.affinity?.nodeAffinity?.[REQUIRED]?.nodeSelectorTerms;
        const now = patched.affinity?.nodeAffinity?.[REQUIRED]?.nodeSelectorTerms;
        expect(terms === undefined || now?.length === terms.length).toBe(true);
        for (const [at, { matchExpressions = [], matchFields }] of (terms ?? []).entries()) {
          const kept = now?.[at]?.matchExpressions?.slice(0, matchExpressions.length) ?? [];
          expect(kept).toEqual(matchExpressions);
          expect(now?.[at]?.matchFields).toEqual(matchFields);
        }
        const their = before.affinity?.nodeAffinity?.[PREFERRED] ?? [];
        expect((patched.affinity?.nodeAffinity?.[PREFERRED] ?? []).slice(0, their.length)).toEqual(their);
        expect(patched.nodeSelector).toEqual(before.nodeSelector);
        expect(patched.affinity?.podAffinity).toEqual(before.affinity?.podAffinity);
      }),
    );
  });
});
