import { describe, expect, it } from "vitest";
import { compileDeschedule } from "./compile.ts";
import { deschedulePolicySpec } from "./document.ts";

const of = (...documents: readonly (readonly [name: string, spec: object])[]) =>
  documents.map(([name, spec]) => ({ name, spec: deschedulePolicySpec.parse(spec), annotations: {} }));

describe("policies in force", () => {
  it("D-A57 have their durations in milliseconds, files before the cluster", () => {
    const { policies, faults } = compileDeschedule({
      sources: [
        { source: "config", documents: of(["b", { for: "1h30m", minAge: "90s" }]) },
        { source: "cluster", documents: of(["a", {}]) },
      ],
    });
    expect(faults).toEqual([]);
    expect(policies).toMatchObject([
      { rule: "config/b", name: "b", forMs: 5_400_000, minAgeMs: 90_000 },
      { rule: "cluster/a", name: "a", forMs: 300_000, minAgeMs: 0 },
    ]);
  });

  it("D-A58 are the first of a name, unless that has a fault", () => {
    const bad = { podSelector: { matchLabels: { "not a key": "x" } } };
    const { policies, faults } = compileDeschedule({
      sources: [
        { source: "config", documents: of(["a", {}], ["b", bad]) },
        { source: "cluster", documents: of(["a", {}], ["b", {}]) },
      ],
    });
    expect(policies.map(({ rule }) => rule)).toEqual(["config/a", "cluster/b"]);
    expect(faults).toMatchObject([
      { name: "b", source: "config", path: ["podSelector", "matchLabels", "not a key"] },
      { name: "a", source: "cluster", message: "config/a has the same name and goes before it" },
    ]);
  });

  it("D-A59 leave out what cannot be read, and say so", () => {
    const unreadable = [{ name: "a", message: "spec.for: must be a duration" }];
    expect(compileDeschedule({ sources: [{ source: "cluster", documents: [], unreadable }] })).toEqual({
      policies: [],
      faults: [
        {
          name: "a",
          source: "cluster",
          path: [],
          reason: "DeschedulePolicyInvalid",
          message: "spec.for: must be a duration",
        },
      ],
    });
  });
});

describe("the spec", () => {
  it.each<[string, object, boolean]>([
    ["D-A60 each key of all pods must be confirmed", { keys: ["*"] }, false],
    ["D-A61 and is, with everything: true", { keys: ["*"], everything: true }, true],
    ["D-A62 or with fewer pods", { keys: ["*"], podSelector: { matchLabels: { app: "a" } } }, true],
    [
      "D-A63 or with fewer namespaces",
      { keys: ["*"], namespaceSelector: { matchLabels: { team: "a" } } },
      true,
    ],
    ["D-A64 an empty selector selects all", { keys: ["*"], podSelector: { matchLabels: {} } }, false],
    ["D-A65 a bare True of YAML is True", { requireFit: true }, true],
    ["D-A66 no other word is", { requireFit: "Maybe" }, false],
    ["D-A67 a limit of 0 would stop all", { limits: { cluster: 0 } }, false],
  ])("%s", (_, spec, isValid) => {
    expect(deschedulePolicySpec.safeParse(spec).success).toBe(isValid);
  });
});
