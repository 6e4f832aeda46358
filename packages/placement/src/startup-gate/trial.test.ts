/** Gates in dry run, by the plan of the node writer: what they would do is told, and nothing is written. */
import type { Node } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { enforcedGates } from "./compile.ts";
import { explainGates } from "./explain.ts";
import type { SpecInput } from "./testing/gate-case.ts";
import { type Documents, GateWorld, type WorldInit } from "./testing/gate-world.ts";

const KEY = "startup.k8s.io/initializing";
const TAINT = { key: KEY, value: "wait", effect: "NoSchedule" };
const DRY: SpecInput = { signals: { annotations: [{ key: "ok" }] }, stableFor: "10s", dryRun: true };
const ok = { annotations: { ok: "true" } };
const world = (init: WorldInit & { readonly spec?: SpecInput } = {}): GateWorld =>
  new GateWorld({ gates: { g: { ...DRY, ...init.spec } }, nodes: [{}], ageMs: 0, ...init });
const isTainted = ({ spec }: Node, key = KEY): boolean => spec?.taints?.some((it) => it.key === key) === true;
/** What a pass says: `WouldHold`, and who is counted: held, would hold, would release. */
const told = (it: GateWorld): readonly unknown[] => {
  const warnings = it.plan().findings.filter(({ severity }) => severity === "warning");
  const { held, wouldHold, wouldRelease } = it.tally.counts("config/g");
  return [warnings.map(({ reason }) => reason).join(), held, wouldHold, wouldRelease];
};

describe("I-14 a gate in dry run", () => {
  it("says of a new node that it would be held, by what, and when it would have been let go, and writes nothing", () => {
    const it = world();
    it.pass(600_000);
    expect(told(it)).toEqual(["WouldHold", 0, 1, 0]);
    const [held] = explainGates(it.capability.look(it.viewOf(), it.wallMs));
    expect(held).toMatchObject({
      held: false,
      phase: "WouldHold",
      dryRun: true,
      signals: [{ state: "missing" }],
    });
    expect(it.plan().findings.map(({ message }) => message)).toContainEqual(
      expect.stringMatching(/^it would be held: annotation ok: /),
    );
    it.edit(ok);
    it.pass(9_000);
    expect(told(it)).toEqual(["WouldHold", 0, 1, 0]);
    it.pass(2_000);
    const at = it.plan().findings.map(({ message }) => message);
    expect(at).toEqual([expect.stringMatching(/would be off since 2026-01-01T00:10:10Z$/)]);
    it.pass(600_000);
    expect([told(it), it.writes, it.plan().findings.map(({ message }) => message)]).toEqual([
      ["WouldRelease", 0, 0, 0],
      0,
      at,
    ]);
  });

  it("lets go once, unless it is Continuous", () => {
    for (const [mode, last] of [
      ["Once", "WouldRelease"],
      ["Continuous", "WouldHold"],
    ] as const) {
      const it = world({ nodes: [ok], spec: { mode } });
      it.pass(20_000);
      expect(told(it)[0]).toBe("WouldRelease");
      it.edit({ annotations: { ok: null } });
      it.pass(1_000);
      expect([told(it)[0], it.writes]).toEqual([last, 0]);
    }
  });

  it("leaves alone a node that is older than the window, and asks about no pods of it", () => {
    const it = world({ ageMs: 7_200_000 });
    it.pass(60_000);
    expect([told(it), it.writes]).toEqual([["", 0, 0, 0], 0]);
  });

  it("changes nothing on the nodes that it holds, and says which it would let go", () => {
    const it = world({ nodes: [{ taints: [TAINT] }], spec: { dryRun: false } });
    it.settle();
    const { writes } = it;
    it.setGates({ g: DRY });
    expect(told(it)).toEqual(["", 1, 0, 0]);
    it.edit(ok);
    it.pass(20_000);
    expect([told(it), isTainted(it.node), it.writes]).toEqual([["WouldRelease", 1, 0, 1], true, writes]);
    it.setGates({ g: { ...DRY, dryRun: false } });
    it.pass(20_000);
    expect(isTainted(it.node)).toBe(false);
  });

  it("takes off no taint of another writer, though its own would be pruned", () => {
    const it = world({ nodes: [{ taints: [{ ...TAINT, value: "other" }] }], ageMs: 7_200_000 });
    it.pass(60_000);
    expect([isTainted(it.node), it.writes]).toEqual([true, 0]);
  });

  it("is not waited for by other gates, and admission does not act for it", () => {
    const gates: Documents = {
      g: DRY,
      real: {
        ...DRY,
        dryRun: false,
        stableFor: "0s",
        after: ["g"],
        taint: { key: "real" },
        minimumHold: "1s",
      },
    };
    const it = world({ gates, nodes: [{ taints: [{ ...TAINT, key: "real" }] }] });
    it.pass(2_000);
    const looks = explainGates(it.capability.look(it.viewOf(), it.wallMs));
    expect(looks.map(({ gate, phase, after }) => [gate, phase, after])).toEqual([
      ["config/g", "WouldHold", []],
      ["config/real", "Held", []],
    ]);
    expect(enforcedGates(it.gates)?.gates.map(({ name }) => name)).toEqual(["real"]);
  });
});
