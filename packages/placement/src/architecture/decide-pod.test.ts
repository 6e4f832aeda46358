import { aPod, type PodBuilder } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { isPlaced, isUnscheduled } from "./decide-pod.ts";
import { ARCHITECTURE_CONDITION } from "./document.ts";
import {
  after,
  both,
  type Case,
  CREATED,
  decide,
  pod,
  requiring,
  taint,
  version,
} from "./testing/deciding.ts";
import { type PolicyInit } from "./testing/policies.ts";
import { GATE, tolerating } from "./testing/specs.ts";

describe("a gated pod", () => {
  it("A-B11 whose images are known now: affinity and gate in one patch, guarded by version and name of the gate", () => {
    const held = pod("amd", { name: "kueue" }, GATE);
    const decision = decide(held);
    expect(decision.patch?.slice(0, 2)).toEqual([
      version,
      { op: "test", path: "/spec/schedulingGates/1/name", value: GATE.name },
    ]);
    expect(decision).toMatchObject({ isLifted: true, outcome: { rule: "cluster/p", phase: "settled" } });
    expect(decision).not.toHaveProperty("finding");
    expect(after(held, decision)).toMatchObject({
      affinity: requiring("amd64"),
      schedulingGates: [{ name: "kueue" }],
    });
  });

  it("with taints as well: its tolerations in the same patch", () => {
    const held = pod("amd", GATE).tolerating({ key: "x" });
    expect(after(held, decide(held, both))).toMatchObject({
      tolerations: [{ key: "x" }, tolerating("amd64")],
      affinity: requiring("amd64"),
      schedulingGates: [],
    });
  });

  it("whose images are not known: held, looked at again when maxHold passes, and then let go by the policy", () => {
    const held = pod("new", GATE);
    const waiting = decide(held);
    expect(waiting).not.toHaveProperty("patch");
    expect(waiting).toMatchObject({ recheckAfterMs: 29_000, wants: [{ image: "new" }] });
    expect(waiting.outcome.phase).toBe("waiting");
    const late = { afterMs: 30_000 };
    const released = decide(held, late);
    expect(after(held, released)).not.toHaveProperty("affinity");
    expect(released).toMatchObject({
      isLifted: true,
      finding: { reason: "HoldExpired", severity: "warning" },
    });
    const fallback: PolicyInit = { afterMaxHold: "Fallback", fallbackArchitectures: ["arm64"] };
    const elsewhere = after(held, decide(held, { ...late, policy: fallback }));
    expect(elsewhere).toMatchObject({ affinity: requiring("arm64") });
    const kept = decide(held, { ...late, policy: { afterMaxHold: "Keep" } });
    expect(kept).not.toHaveProperty("patch");
    expect(kept).toMatchObject({ finding: { reason: "HoldExpired" }, outcome: { phase: "waiting" } });
  });

  it("that was held while no process ran gets one look first", () => {
    const held = pod("new", GATE);
    const late = { afterMs: 3_600_000, seenSince: CREATED + 3_599_000 };
    expect(decide(held, late)).toMatchObject({ recheckAfterMs: 4000, isLifted: false });
    expect(decide(held, { ...late, seenSince: CREATED + 3_595_000 })).toMatchObject({ isLifted: true });
    const short = { ...late, policy: { maxHold: "1s" } };
    expect(decide(held, short)).toMatchObject({ isLifted: true });
  });

  it("is not held longer because the API server's clock is ahead", () => {
    const ahead = { afterMs: -3_570_000, seenSince: CREATED - 3_600_000 };
    expect(decide(pod("new", GATE), ahead).isLifted).toBe(true);
  });

  it("A-B1 that can run nowhere: held, with an Event that names the containers", () => {
    const decision = decide(pod("amd", GATE).container("side", "arm"));
    expect(decision).not.toHaveProperty("patch");
    expect(decision.outcome.phase).toBe("impossible");
    expect(decision.finding).toMatchObject({ reason: "NoCommonArchitecture", subject: "Pod default/p" });
    const says = "container main (docker.io/library/amd:latest) runs on amd64";
    expect(decision.finding?.message).toContain(says);
  });

  it("A-B8 that cannot be resolved and is closed: held, and looked at again with the registry", () => {
    const decision = decide(pod("gone", GATE), { policy: { unresolvable: "Closed" } });
    expect(decision).not.toHaveProperty("patch");
    expect(decision).toMatchObject({
      recheckAfterMs: 59_000,
      finding: { reason: "ImageNotFound" },
      outcome: { phase: "unresolvable" },
    });
  });

  it.each<readonly [string, PodBuilder, Case]>([
    ["no policy governs any more", pod("new", GATE), { policy: null }],
    ["a policy governs that only taints", pod("new", GATE), taint],
    ["is of a DaemonSet", pod("new", GATE).ofDaemonSet("ds"), {}],
    ["is of kube-system", pod("new", GATE).in("kube-system"), {}],
  ])(
    "that %s is let go as it is, but not before a policy had time to come to this replica",
    (_, held, input) => {
      const early = decide(held, { ...input, afterMs: 1500 });
      expect(early).not.toHaveProperty("patch");
      expect(early).toMatchObject({ isLifted: false, recheckAfterMs: 500, outcome: { phase: "waiting" } });
      const decision = decide(held, { ...input, afterMs: 2000 });
      expect(decision.isLifted).toBe(true);
      expect(after(held, decision)).toEqual({ ...held.build().spec, schedulingGates: [] });
    },
  );
});

describe("a pod without our gate", () => {
  it("A-P4 gets the tolerations that it lacks, behind those that stand", () => {
    const decision = decide(pod("amd").tolerating({ key: "x" }), taint);
    expect(decision.patch).toEqual([
      version,
      { op: "add", path: "/spec/tolerations/-", value: tolerating("amd64") },
    ]);
    expect(decision).toMatchObject({ isLifted: false, outcome: { uncovered: ["supported-arch"] } });
  });

  it("A-P7 that has them is settled", () => {
    const decision = decide(pod("amd").tolerating(tolerating("amd64")), taint);
    expect(decision).not.toHaveProperty("patch");
    expect(decision).not.toHaveProperty("recheckAfterMs");
    expect(decision.outcome).toEqual({ rule: "cluster/p", uncovered: [], phase: "settled" });
  });

  it("A-P11 with nothing in common gets none, keeps no node from being tainted, and an Event tells", () => {
    const decision = decide(pod("amd").container("side", "arm"), taint);
    expect(decision).not.toHaveProperty("patch");
    expect(decision.outcome).toEqual({ rule: "cluster/p", uncovered: [], phase: "impossible" });
    expect(decision.finding?.reason).toBe("NoCommonArchitecture");
  });

  it("waits for its images since it was first seen, however old it is", () => {
    const old = { ...taint, afterMs: 3_600_000, seenSince: CREATED + 3_590_000 };
    expect(decide(pod("new"), old)).toMatchObject({
      recheckAfterMs: 20_000,
      outcome: { uncovered: ["supported-arch"], phase: "waiting" },
    });
    const exists = { key: "supported-arch", operator: "Exists", effect: "NoSchedule" };
    const late = decide(pod("new"), { ...old, seenSince: CREATED });
    expect(after(pod("new"), late)).toMatchObject({ tolerations: [exists] });
    expect(late.finding?.reason).toBe("HoldExpired");
  });

  it("keeps the tolerations that facts gave it once those are lost", () => {
    const given = pod("new").tolerating(tolerating("amd64"));
    const late = decide(given, { ...taint, afterMs: 30_000 });
    expect(late).not.toHaveProperty("patch");
    expect(late.outcome).toEqual({ rule: "cluster/p", uncovered: [], phase: "settled" });
  });

  it("that nobody governs tolerates everything", () => {
    const decision = decide(pod("amd"), { policy: null, keys: ["supported-arch"] });
    expect(after(pod("amd"), decision)).toMatchObject({ tolerations: [{ operator: "Exists" }] });
    expect(decision).not.toHaveProperty("finding");
  });

  it("is not narrowed, and its images are asked for only where that changes anything", () => {
    const decision = decide(pod("new", { name: "kueue" }));
    expect(decision).not.toHaveProperty("patch");
    expect(decision).toMatchObject({ wants: [], outcome: { phase: "settled" } });
    expect(decide(pod("amd", { name: "kueue" }))).not.toHaveProperty("patch");
  });
});

describe("a pod that admission has", () => {
  const narrowed = (...gates: readonly { readonly name: string }[]): PodBuilder =>
    pod("amd", ...gates).with((it) => ({
      ...it,
      spec: { containers: [], ...it.spec, affinity: requiring("amd64") },
    }));
  const stuck = { type: ARCHITECTURE_CONDITION, status: "False" };
  it.each<readonly [string, boolean, PodBuilder, Case]>([
    ["kept to architectures shows that it is decided", true, narrowed(), {}],
    ["given their tolerations too shows it", true, narrowed().tolerating(tolerating("amd64")), both],
    [
      "given tolerations of another architecture does not",
      false,
      narrowed().tolerating(tolerating("x")),
      both,
    ],
    ["given no toleration does not", false, narrowed(), both],
    ["held does not", false, narrowed(GATE), {}],
    ["not narrowed does not", false, pod("amd"), {}],
    [
      "kept pending does not",
      false,
      narrowed().with((it) => ({ ...it, status: { conditions: [stuck] } })),
      {},
    ],
  ])("%s", (_, expected, built, input) => {
    const isShown = isPlaced(built.build(), input === both ? ["supported-arch"] : []);
    expect(isShown).toBe(expected);
    expect(isShown && "patch" in decide(built, input)).toBe(false);
  });
});

describe("a pod that the API server refused to change", () => {
  const refusal = "admission webhook says no";

  it("is let go without anything else, and an Event says so", () => {
    const held = pod("amd", GATE);
    const decision = decide(held, { ...both, refusal });
    expect(after(held, decision)).toEqual({ ...held.build().spec, schedulingGates: [] });
    expect(decision.finding).toMatchObject({ reason: "PodPatchRefused", message: refusal });
  });

  it("stays held where no verdict lets it go, and as it is where it is not held", () => {
    expect(decide(pod("new", GATE), { refusal })).not.toHaveProperty("patch");
    const open = decide(pod("amd"), { ...taint, refusal });
    expect(open).not.toHaveProperty("patch");
    expect(open.outcome.uncovered).toEqual(["supported-arch"]);
    expect(open.finding?.reason).toBe("PodPatchRefused");
  });
});

it("only pods that are still to be scheduled are looked at", () => {
  const leaving = aPod("p").stored({ deletionTimestamp: "2026-01-01T00:00:00Z" });
  const pods = [aPod("p"), aPod("p").on("n"), aPod("p").phase("Failed"), leaving];
  expect(pods.map((it) => isUnscheduled(it.build()))).toEqual([true, false, false, false]);
});
