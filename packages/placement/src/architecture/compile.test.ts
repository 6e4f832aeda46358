import { describe, expect, it } from "vitest";
import { isRuleKnown } from "../node/capability.ts";
import { compileArchitecture, taintKeys } from "./compile.ts";
import { documentsOf, type PolicyInit, policiesOf, policyInForce } from "./testing/policies.ts";

const GKE = "kubernetes.io/arch";
const rulesOf = (policies: Readonly<Record<string, PolicyInit>>): readonly string[] =>
  policiesOf(policies).policies.map(({ rule }) => rule);
const faultsOf = (init: PolicyInit): readonly string[] =>
  policiesOf({ p: init }).faults.map(({ path, message }) => `${path.join(".")}: ${message}`);

describe("architecture policies in force", () => {
  it("stand by falling priority, then in the order of their documents", () => {
    const rules = rulesOf({ b: {}, a: {}, low: { priority: -1 }, high: { priority: 5 } });
    expect(rules).toEqual(["cluster/high", "cluster/b", "cluster/a", "cluster/low"]);
  });

  it("have the time of a hold in milliseconds, and whether a person has confirmed them", () => {
    const [policy] = policiesOf({ p: { maxHold: "2m", confirmed: true } }).policies;
    expect(policy).toMatchObject({ rule: "cluster/p", name: "p", maxHoldMs: 120_000, confirmed: true });
    const inherited = Object.create({ "berth.dev/bootstrap-confirmed": "true" }) as Record<string, string>;
    const { spec } = policyInForce({});
    const documents = [{ name: "p", annotations: inherited, spec }];
    const { policies } = compileArchitecture({ sources: [{ source: "config", documents }] });
    expect(policies[0]?.confirmed).toBe(false);
  });

  it("may share a key, which pods have to tolerate once", () => {
    const { policies, policy, faults } = policiesOf({
      a: {},
      b: { taint: { nodes: "Leave" } },
      c: { mode: "Both", taint: { key: GKE } },
      d: { mode: "Affinity", taint: { key: "example.com/never" } },
    });
    expect(faults).toEqual([]);
    expect(taintKeys({ policies })).toEqual([GKE, "supported-arch"]);
    expect(policy.places).toEqual(new Set(["taint/supported-arch:NoSchedule", `taint/${GKE}:NoSchedule`]));
  });
});

describe("faults of architecture policies", () => {
  const ofKubernetes = "taint.key: Kubernetes itself sets and removes taints of this domain";
  const ofStartup = "taint.key: other controllers remove taints of this domain once a node has started";

  it.each<[string, PolicyInit, readonly string[]]>([
    ["the key of GKE is none", { taint: { key: GKE } }, []],
    ["a taint of kubelet or node controller", { taint: { key: "node.kubernetes.io/arch" } }, [ofKubernetes]],
    ["nor one that somebody else sets", { taint: { key: "node.kubernetes.io/a", nodes: "Leave" } }, []],
    ["nor without taints", { mode: "Affinity", taint: { key: "node.kubernetes.io/a" } }, []],
    ["a startup taint", { taint: { key: "startup.k8s.io/arch" } }, [ofStartup]],
    [
      "keys that no label can have",
      {
        namespaceSelector: { matchLabels: { "a b": "" } },
        podSelector: { matchLabels: { "/x": "" } },
        taint: { nodeSelector: { matchLabels: { "": "" } } },
      },
      [
        expect.stringMatching(/^namespaceSelector\.matchLabels\.a b: no label can have this key: /) as string,
        expect.stringMatching(/^podSelector\.matchLabels\.\/x: /) as string,
        expect.stringMatching(/^taint\.nodeSelector\.matchLabels\.: /) as string,
      ],
    ],
  ])("%s", (_, init, expected) => {
    expect(faultsOf(init)).toEqual(expected);
    expect(rulesOf({ p: init })).toEqual(expected.length === 0 ? ["cluster/p"] : []);
  });

  it("a name that is taken: files come before the cluster", () => {
    const sources = [documentsOf({ p: {} }, "config"), documentsOf({ p: {}, q: {} })];
    const { policies, faults } = compileArchitecture({ sources });
    expect(policies.map(({ rule }) => rule)).toEqual(["config/p", "cluster/q"]);
    expect(faults).toEqual([
      {
        name: "p",
        source: "cluster",
        path: [],
        reason: "ArchitecturePolicyInvalid",
        message: "config/p has the same name and goes before it",
      },
    ]);
  });

  it("leave a policy in force as it was before, whether it can be read or not; after a restart its taints stay", () => {
    const before = policiesOf({ p: { priority: 3 }, q: {} });
    const documents = documentsOf({ p: { priority: 4, taint: { key: "startup.k8s.io/x" } } }).documents;
    const unreadable = [{ name: "q", message: "spec.mode: is not valid" }];
    const source = { source: "cluster", documents, unreadable } as const;
    const compiled = compileArchitecture({ sources: [source], before });
    expect(compiled.policies).toEqual(before.policies);
    expect(compiled.faults.map(({ name, message }) => `${name}: ${message}`)).toEqual([
      "q: spec.mode: is not valid",
      "p: other controllers remove taints of this domain once a node has started",
    ]);
    expect(compiled.policy.rules).toEqual(new Set(["cluster/p", "cluster/q"]));
    expect(compiled.policy.refused).toEqual(new Set());
    const restarted = compileArchitecture({ sources: [source] });
    expect(restarted.policies).toEqual([]);
    const standing = ["cluster/p", "cluster/q"].map((rule) => isRuleKnown(restarted.policy, rule));
    expect(standing).toEqual([false, false]);
    expect(isRuleKnown(restarted.policy, "cluster/deleted")).toBe(true);
  });

  it("do not bring back a policy whose name a file has taken", () => {
    const before = policiesOf({ p: {} });
    const sources = [
      documentsOf({ p: {} }, "config"),
      documentsOf({ p: { taint: { key: "startup.k8s.io/x" } } }),
    ];
    const { policies, faults } = compileArchitecture({ sources, before });
    expect(policies.map(({ rule }) => rule)).toEqual(["config/p"]);
    expect(faults).toHaveLength(2);
  });
});

describe("what architecture policies declare of nodes", () => {
  it("the original key with every effect, alone, and another key with its one", () => {
    const original = policiesOf({ p: {} }).policy;
    expect(original.exclusive).toEqual({ ids: new Set(), prefixes: ["taint/supported-arch:"] });
    expect(original.declared.ids).toEqual(new Set(["taint/supported-arch:NoSchedule"]));
    const other = policiesOf({ p: { taint: { key: GKE } } }).policy;
    expect(other.exclusive).toEqual({ ids: new Set(), prefixes: [] });
    expect(other.allowedProtected.ids).toEqual(new Set([`taint/${GKE}:NoSchedule`]));
  });

  it("nothing while somebody else taints, or nobody does", () => {
    for (const init of [{ taint: { nodes: "Leave" as const } }, { mode: "Affinity" as const }]) {
      const { declared, exclusive } = policiesOf({ p: init }).policy;
      const nothing = { ids: new Set(), prefixes: [] };
      expect([declared, exclusive]).toEqual([nothing, nothing]);
    }
  });

  it("that a source which may still be read has taints of its own", () => {
    expect(policiesOf({}).policy.unsettled).toBeUndefined();
    expect(policiesOf({}, { unsettled: "reading" }).policy.unsettled).toEqual({
      sources: new Set(["cluster"]),
      deleted: new Set(),
    });
  });
});
