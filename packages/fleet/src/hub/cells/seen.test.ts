import { describe, expect, it } from "vitest";
import { aTemplate } from "../../deployment/testing/fixtures.ts";
import { AWAY, aCell, aFound, aPlacement, aSource, going, onHub } from "../testing/fixtures.ts";
import { adopted, assignedTo, isFullWith, mayEnd, specIn } from "./seen.ts";

describe("a Cell that is being deleted", () => {
  const cell = (state: object): ReturnType<typeof aCell> => {
    const seen = aCell("a", state);
    return { ...seen, cell: { ...seen.cell, metadata: { name: "a", ...going } } };
  };

  it.each([
    ["ends when it has nothing", cell({}), false, false, true],
    ["stays while a placement names it", cell({}), true, false, false],
    ["stays while it has a deployment", cell({}), false, true, false],
    ["stays while it does not answer", cell({ state: AWAY }), false, false, false],
    ["ends when it was given up", cell({ state: AWAY, spec: { forgotten: true } }), false, true, true],
    [
      "stays until all that was placed there is elsewhere",
      cell({ state: AWAY, spec: { forgotten: true } }),
      true,
      true,
      false,
    ],
    ["ends only then", aCell("a"), false, false, false],
  ])("%s", (_, seen, isNamed, hasDeployments, expected) => {
    expect(mayEnd({ seen, isNamed, hasDeployments })).toBe(expected);
  });
});

describe("an orphan that an operator adopts", () => {
  const adopt = [{ namespace: "ns-U", name: "w-us-dfw", sourceUid: "lost", epoch: 1 }];
  const orphan = aFound(aCell("a", { spec: { adopt } }), { source: "lost" });
  const wished = aSource();

  it.each<[string, ...Parameters<typeof adopted>, string]>([
    ["is of what the project has now", orphan, undefined, wished, "source-uid/1"],
    ["waits for that", orphan, undefined, undefined, "lost/1"],
    ["is not of what is being deleted", orphan, undefined, aSource({ metadata: going }), "lost/1"],
    ["waits while that is in another cell", orphan, onHub({ placed: aPlacement("b") }), wished, "lost/1"],
    [
      "becomes the placement that its cell should have",
      orphan,
      onHub({ placed: aPlacement("a", { epoch: 3 }) }),
      wished,
      "source-uid/3",
    ],
    [
      "is of this placement alone",
      aFound(orphan.cell, { source: "lost", epoch: 2 }),
      undefined,
      wished,
      "lost/2",
    ],
    ["is in this cell alone", aFound(aCell("b"), { source: "lost" }), undefined, wished, "lost/1"],
  ])("%s", (_, found, hub, source, expected) => {
    const { origin } = adopted(found, hub, source);
    expect(`${origin.sourceUid}/${origin.epoch}`).toBe(expected);
  });

  it("keeps its workloadRef, and gets all else", () => {
    const workload = { name: "w", uid: "uid-anew" };
    const wanted = specIn(orphan.deployment, onHub({ workload, template: aTemplate("app:2") }));
    expect(wanted).toEqual({
      ...orphan.deployment.spec,
      template: aTemplate("app:2"),
    });
  });
});

it.each<[string, number, number, boolean]>([
  ["few", 10, 100, false],
  ["as many Instances as half of what is read", 10, 1_000, true],
  ["as many bytes of templates as half of what is read", 40, 0, true],
])("a cell is full with %s", (_, count, min, expected) => {
  const template = min === 0 ? aTemplate("x".repeat(1024 * 1024)) : aTemplate("app:1");
  const one = onHub({ min, template });
  expect(isFullWith(Array.from({ length: count }, () => one))).toBe(expected);
});

it("what leaves a cell is no load of it, and what comes to it is", () => {
  const { epoch, start, uid } = aPlacement();
  const [inA, inB] = [
    { cell: "a", uid, epoch, start },
    { cell: "b", uid: "uid-b", epoch: 2, start: 1000 },
  ];
  const moving = onHub({ placed: aPlacement("a", { last: 2, next: inB }) });
  const moved = onHub({ placed: aPlacement("b", { ...inB, leaving: inA }) });
  expect([assignedTo("uid-a", [moving, moved]), assignedTo("uid-b", [moving, moved])]).toEqual([2, 4]);
});
