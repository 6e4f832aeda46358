import { describe, expect, it } from "vitest";
import { noMarks } from "../node/mark-set.ts";
import { compileFootprints } from "./compile.ts";
import type { NodeFootprintSpec } from "./document.ts";
import { documentsOf, footprintsOf, type Specs } from "./testing/footprints.ts";

const spec = (key: string, prefix?: string): NodeFootprintSpec => ({
  workloads: [{ podSelector: { matchLabels: { app: "a" } } }],
  group: { by: "Namespace" },
  node: { label: { key }, ...(prefix !== undefined && { claims: { annotationPrefix: prefix } }) },
});
const A = spec("a.dev/label", "a.dev/claim.");
const B = spec("b.dev/label", "b.dev/claim.");
const rulesOf = ({ footprints }: ReturnType<typeof footprintsOf>): readonly string[] =>
  footprints.map(({ rule }) => rule);
const faultsOf = ({ faults }: ReturnType<typeof footprintsOf>): readonly string[] =>
  faults.map(({ source, name, path, message }) => `${source}/${name} ${path.join(".")}: ${message}`);

describe("footprints in force", () => {
  it("stand in the order of their documents, with what the node writer may do for them", () => {
    const compiled = footprintsOf({ b: { ...spec("b.dev/l"), release: { delay: "30s" } }, a: A });
    expect(rulesOf(compiled)).toEqual(["cluster/b", "cluster/a"]);
    const places = {
      ids: new Set(["label/a.dev/label", "label/b.dev/l"]),
      prefixes: ["annotation/a.dev/claim."],
    };
    expect(compiled.policy).toEqual({
      sourcesRead: new Set(["cluster"]),
      rules: new Set(["cluster/a", "cluster/b"]),
      declared: places,
      allowedProtected: places,
      exclusive: places,
      removals: new Map([["cluster/b", { delayMs: 30_000 }]]),
      refused: new Set(),
    });
    expect(compiled.faults).toEqual([]);
  });

  it("own their places alone only where they reclaim them", () => {
    const { policy } = footprintsOf({
      a: { ...A, node: { ...A.node, foreign: "Preserve" } },
      b: { ...B, node: { ...B.node, foreign: "Report" } },
    });
    expect(policy.exclusive).toEqual(noMarks);
    expect(policy.declared.ids).toEqual(new Set(["label/a.dev/label", "label/b.dev/label"]));
  });

  it("of one name are the first one's, be it that it has a fault", () => {
    const sources = [documentsOf({ a: A }, "config"), documentsOf({ a: B, b: B })];
    const compiled = compileFootprints({ sources });
    expect(rulesOf(compiled)).toEqual(["config/a", "cluster/b"]);
    expect(faultsOf(compiled)).toEqual(["cluster/a : config/a has the same name and goes before it"]);
    const faulty = [{ source: "config" as const, documents: [], unreadable: [{ name: "a", message: "no" }] }];
    const none = compileFootprints({ sources: [...faulty, documentsOf({ a: A })] });
    expect(rulesOf(none)).toEqual([]);
    // Neither is deleted, so what stands on nodes stays. The second in the first list is: the first has its name.
    expect(none.policy.refused).toEqual(new Set(["config/a", "cluster/a"]));
    expect(compiled.policy.refused).toEqual(new Set());
  });

  it("keep places of before, and wait for sources that may still be read", () => {
    const declaredBefore = [{ ids: new Set(["label/x.dev/y"]), prefixes: ["annotation/x.dev/"] }];
    const { policy } = footprintsOf({ a: A }, { declaredBefore, unsettled: "reading" });
    expect(policy.declared.ids.has("label/x.dev/y")).toBe(true);
    expect(policy.declared.prefixes).toEqual(["annotation/x.dev/", "annotation/a.dev/claim."]);
    expect(policy.exclusive.ids).toEqual(new Set(["label/a.dev/label"]));
    expect(policy.unsettled).toEqual({ sources: new Set(["cluster"]), deleted: new Set() });
  });
});

describe("faults of footprints", () => {
  it.each<[string, Specs, string]>([
    [
      "one label",
      { a: A, b: spec("a.dev/label") },
      "cluster/b node.label.key: cluster/a wants the label a.dev/label as well, came first, and stays in force",
    ],
    [
      "one prefix inside the other",
      { a: A, b: spec("b.dev/label", "a.dev/claim.x.") },
      "cluster/b node.claims.annotationPrefix: cluster/a claims by a prefix that Berth cannot tell from a.dev/claim.x., came first, and stays in force",
    ],
  ])("are of two that want %s those of the later one: it names the other", (_, specs, expected) => {
    const compiled = footprintsOf({ ...specs, c: spec("c.dev/label") });
    expect(rulesOf(compiled)).toEqual(["cluster/a", "cluster/c"]);
    expect(faultsOf(compiled)).toEqual([expected]);
    expect(compiled.faults[0]?.reason).toBe("FootprintOverlap");
  });

  it("are of three that want one label those of the later two, though the first by name comes last", () => {
    const label = "cluster/c wants the label a.dev/label as well, came first, and stays in force";
    const compiled = footprintsOf({ c: spec("a.dev/label"), a: A, b: spec("a.dev/label", "a.dev/claim.x.") });
    expect(rulesOf(compiled)).toEqual(["cluster/c"]);
    expect(faultsOf(compiled)).toEqual([
      `cluster/a node.label.key: ${label}`,
      `cluster/b node.label.key: ${label}`,
    ]);
  });

  it("are of two that manage one DaemonSet those of the later one: its node selector can follow one label", () => {
    const agent = { daemonSet: { namespace: "x", name: "agent" }, nodeSelector: "Manage" } as const;
    const verified = { ...agent, nodeSelector: "Verify" } as const;
    expect(faultsOf(footprintsOf({ a: { ...A, agent }, b: { ...B, agent } }))).toEqual([
      "cluster/b agent.daemonSet: cluster/a manages this DaemonSet as well, came first, and stays in force",
    ]);
    expect(footprintsOf({ a: { ...A, agent }, b: { ...B, agent: verified } }).faults).toEqual([]);
  });

  it.each<[string, NodeFootprintSpec, string]>([
    [
      "a label of Kubernetes",
      spec("kubernetes.io/os"),
      "node.label.key: the domain is reserved for Kubernetes, except",
    ],
    [
      "a label that looks restricted",
      spec("xnode-restriction.kubernetes.io/a"),
      "node.label.key: the domain is reserved",
    ],
    [
      "claims of Kubernetes",
      spec("a.dev/a", "node-restriction.kubernetes.io/c."),
      "node.claims.annotationPrefix: the domain is reserved",
    ],
    [
      "a finalizer of Kubernetes",
      {
        preset: "agent-substrate/pr-134",
        hold: {
          resource: { group: "", version: "v1", resource: "persistentvolumeclaims" },
          finalizer: "kubernetes.io/pvc-protection",
        },
      },
      "hold.finalizer: the domain is reserved",
    ],
    [
      "claims without a domain",
      spec("a.dev/a", "c"),
      "node.claims.annotationPrefix: must begin with a domain",
    ],
    [
      "claims over the record",
      spec("a.dev/a", "berth.dev/"),
      "node.claims.annotationPrefix: Berth keeps its own state",
    ],
    [
      "claims inside of gates",
      spec("a.dev/a", "gate.berth.dev/x."),
      "node.claims.annotationPrefix: Berth keeps its own state",
    ],
    [
      "a key that no label can have",
      { ...A, workloads: [{ podSelector: { matchLabels: { "a b": "" } } }] },
      "workloads.0.podSelector.matchLabels.a b: no label can have this key",
    ],
    [
      "… in another selector",
      { ...A, workloads: [{ namespaceSelector: { matchLabels: { "/": "" } } }] },
      "workloads.0.namespaceSelector.matchLabels./: no label can have this key",
    ],
    [
      "… of nodes",
      { ...A, node: { ...A.node, excludeSelector: { matchLabels: { "": "" } } } },
      "node.excludeSelector.matchLabels.: no label can have this key",
    ],
  ])("is %s", (_, spec, expected) => {
    const compiled = footprintsOf({ f: spec });
    expect(compiled.footprints).toEqual([]);
    expect(faultsOf(compiled)).toEqual([expect.stringContaining(`cluster/f ${expected}`) as string]);
  });

  it.each(["node-restriction.kubernetes.io/a", "x.node-restriction.kubernetes.io/a"])(
    "is not the label %s, which kubelets cannot set",
    (key) => {
      const { footprints, policy } = footprintsOf({ f: spec(key) });
      expect(footprints.map(({ label }) => label.key)).toEqual([key]);
      expect(policy.allowedProtected.ids).toEqual(new Set([`label/${key}`]));
    },
  );
});

describe("a footprint whose document has got a fault", () => {
  const before = footprintsOf({ a: A, b: B }).footprints;

  it("goes on as it was, while its rule is in force and its places are its own", () => {
    const changed = footprintsOf({ a: spec("kubernetes.io/os"), b: B }, { before });
    expect(changed.footprints).toEqual(before);
    expect(changed.faults).toHaveLength(1);
    expect(changed.policy.rules).toEqual(new Set(["cluster/a", "cluster/b"]));
  });

  it("goes on when it cannot be read at all, and not once its document is gone", () => {
    const { documents } = documentsOf({ b: B });
    const unreadable = [{ name: "a", message: "workloads: too many" }];
    const sources = [{ source: "cluster" as const, documents, unreadable }];
    expect(compileFootprints({ sources, before }).footprints).toEqual(before);
    expect(rulesOf(footprintsOf({ b: B }, { before }))).toEqual(["cluster/b"]);
  });

  it("goes on when another one comes to want its label, which then is not in force", () => {
    const specs = { a: spec("kubernetes.io/os"), b: B, c: spec("a.dev/label") };
    const { footprints, faults } = footprintsOf(specs, { before });
    expect(footprints).toEqual(before);
    expect(faults.map(({ name }) => name)).toEqual(["a", "c"]);
  });

  it("does not when one that comes before it wants what it had", () => {
    const specs = { c: spec("a.dev/label"), a: spec("kubernetes.io/os"), b: B };
    expect(rulesOf(footprintsOf(specs, { before }))).toEqual(["cluster/c", "cluster/b"]);
  });

  it("goes on when its label is another, by which its agent would end everywhere, unless nothing is known of the agent", () => {
    const agent = { daemonSet: { namespace: "x", name: "agent" } };
    const was = footprintsOf({ a: { ...A, agent } }).footprints;
    const node = { ...A.node, label: { key: "a.dev/new" } };
    const changed = footprintsOf({ a: { ...A, agent, node } }, { before: was });
    expect(changed.footprints).toEqual(was);
    expect(faultsOf(changed)).toEqual([
      expect.stringMatching(
        /^cluster\/a node\.label: a\.dev\/label=true cannot become a\.dev\/new=true/,
      ) as string,
    ]);
    expect(footprintsOf({ a: { ...A, node } }, { before }).faults).toEqual([]);
  });
});
