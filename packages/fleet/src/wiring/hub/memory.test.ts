import { clusterName, type EngagedCluster } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { HubMemory } from "./memory.ts";

let nowMs = 0;
const clock = { monotonic: () => nowMs };
const leading = (): HubMemory => {
  const memory = new HubMemory(clock);
  memory.begin();
  nowMs += 120_000;
  return memory;
};

function cluster(changes: Partial<EngagedCluster> & { readonly changedAt?: number } = {}): EngagedCluster {
  const { changedAt = 0, ...rest } = changes;
  const lease = { object: {}, changedAt };
  return { name: "a", restores: 0, reach: { is: "yes", heardMs: 0 }, lease, ...rest } as EngagedCluster;
}

describe("isLatePossible", () => {
  it("for two minutes after another process led", () => {
    const memory = new HubMemory(clock);
    memory.begin();
    nowMs += 119_999;
    expect(memory.isLatePossible("x")).toBe(true);
    nowMs += 1;
    expect(memory.isLatePossible("x")).toBe(false);
  });

  it("for two minutes after a creation without an answer", () => {
    const memory = leading();
    memory.sent("lost");
    memory.sent("done");
    memory.answered("done");
    nowMs += 119_999;
    expect(["lost", "done", "other"].map((it) => memory.isLatePossible(it))).toEqual([true, false, false]);
    nowMs += 1;
    expect(memory.isLatePossible("lost")).toBe(false);
  });
});

describe("provenForMs", () => {
  it.each<[string, () => EngagedCluster | undefined, number | undefined]>([
    ["counts once the Lease has changed since the read", () => cluster({ changedAt: nowMs }), 1_000],
    [
      "does not count before the cell renews its Lease",
      () => cluster({ changedAt: nowMs - 1_000 }),
      undefined,
    ],
    ["does not without a Lease", () => ({ ...cluster(), lease: undefined }), undefined],
    [
      "does not when the cell was restored since",
      () => cluster({ changedAt: nowMs, restores: 1 }),
      undefined,
    ],
    [
      "does not when the cell is away",
      () => cluster({ changedAt: nowMs, reach: { is: "no", since: 0, cause: "Silent", message: "" } }),
      undefined,
    ],
    ["does not when the cell has left", () => undefined, undefined],
  ])("%s", (_, after, expected) => {
    const memory = leading();
    memory.missed("x", cluster(), nowMs);
    nowMs += 1_000;
    expect(memory.provenForMs("x", after())).toBe(expected);
  });

  it("ends with a loss, and begins anew", () => {
    const memory = leading();
    memory.missed("x", cluster(), nowMs);
    memory.provenForMs("x", cluster({ restores: 1 }));
    expect(memory.hasMissed("x")).toBe(false);
    memory.missed("x", cluster({ restores: 1 }), nowMs);
    nowMs += 1_000;
    expect(memory.provenForMs("x", cluster({ restores: 1, changedAt: nowMs }))).toBe(1_000);
  });
});

it("does not grow: the oldest proofs are forgotten, and proven again", () => {
  const memory = leading();
  for (let at = 0; at <= 10_000; at += 1) {
    memory.missed(`${at}`, cluster(), nowMs);
    memory.gone(`${at}`);
    memory.absent(clusterName("a"), `${at}`);
  }
  const known = (at: string) => [
    memory.hasMissed(at),
    memory.isProvenGone(at),
    memory.isAbsent(clusterName("a"), at),
  ];
  expect([known("0"), known("1")]).toEqual([
    [false, false, false],
    [true, true, true],
  ]);
});

it("knows the generation that was confirmed last, and what is in doubt since", () => {
  const memory = leading();
  const known = () => [memory.isDoubted("uid"), memory.confirmedGeneration("uid")];
  expect(known()).toEqual([false, undefined]);
  memory.doubt("uid");
  expect(known()).toEqual([true, undefined]);
  memory.confirm("uid", 3);
  expect(known()).toEqual([false, 3]);
});
