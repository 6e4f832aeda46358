import { describe, expect, it } from "vitest";
import type { CellPlacement } from "../../api/placement.ts";
import type { DeploymentStatus } from "../../api/workload.ts";
import { AWAY, aCell, aFound, aPlacement, counts, onHub } from "../testing/fixtures.ts";
import { decideMove, type MoveDecision, type MoveFacts, type MoveView } from "./move.ts";

const next = { cell: "b", uid: "uid-b", epoch: 2, start: 1000 };
const moving = aPlacement("a", { next, last: 2 });
const [drained, b] = [aCell("a", { spec: { drain: true } }), aCell("b")];
const [away, forgotten] = [{ state: AWAY }, { spec: { forgotten: true } }];
const facts: MoveFacts = {
  choose: (from) => ({
    is: "placed",
    isTakeover: false,
    placement: { ...from, next, last: 2 },
    verdicts: [],
  }),
  mayBegin: () => true,
  isConfirmed: true,
  forMs: 0,
  timeoutMs: 600_000,
  restsForMs: 0,
  isUnconfirmed: false,
};

const inB = (status: Partial<DeploymentStatus>, generation = "1") =>
  aFound(b, {
    epoch: 2,
    start: 1000,
    metadata: { generation: 1, annotations: { "compute.datumapis.com/source-generation": generation } },
    status: { ...counts(2), observedGeneration: 1, observedSourceGeneration: 1, ...status },
  });
const ready = inB({});
const blocked = inB({
  readyReplicas: 0,
  conditions: [
    {
      type: "ReplicasReady",
      status: "False",
      reason: "QuotaExceeded",
      message: "2 of 2",
      lastTransitionTime: "",
    },
  ],
});

function decide(view: Partial<MoveView>, changes: Partial<MoveFacts> = {}): MoveDecision {
  const { placement = aPlacement() } = view;
  return decideMove({
    deployment: onHub({ placed: placement }),
    placement,
    cells: [drained, b],
    found: [aFound(drained)],
    isGone: false,
    ...view,
    facts: { ...facts, ...changes },
  });
}

const short = ({ cell, next: to, leaving }: CellPlacement): string =>
  [cell, ...(to ? [`next ${to.cell}`] : []), ...(leaving ? [`leaving ${leaving.cell}`] : [])].join(" ");

function told({ place, confirm, isQueued, waits }: MoveDecision): string {
  if (place !== undefined) return `${place.reason}: ${short(place.placement)}`;
  if (confirm !== undefined) return `read ${confirm.cell}`;
  return waits?.reason ?? (isQueued ? "queued" : "");
}

describe("a deployment in a cell that is drained", () => {
  it.each<[string, Partial<MoveView>, string, Partial<MoveFacts>?]>([
    ["begins to move", {}, "Moving: a next b"],
    ["stays when its cell is not drained", { cells: [aCell("a"), b] }, ""],
    ["waits for a cell that is away", { cells: [{ ...drained, ...away }, b] }, "CellUnreachable"],
    ["is made in its cell first", { found: [] }, ""],
    ["waits for others", {}, "queued", { mayBegin: () => false }],
    [
      "waits for another cell",
      {},
      "NoOtherCell",
      { choose: () => ({ is: "none", reason: "NoOtherCell", message: "", verdicts: [] }) },
    ],
    ["waits for a person after the hub was restored", {}, "DrainUnconfirmed", { isUnconfirmed: true }],
    ["rests after it took too long", {}, "MoveTimedOut", { restsForMs: 1 }],
  ])("%s", (_, view, wanted, changes) => expect(told(decide(view, changes))).toBe(wanted));
});

describe("a deployment that moves", () => {
  it.each<[string, Partial<MoveView>, string, Partial<MoveFacts>?]>([
    ["waits until the other cell has it", {}, ""],
    ["is read uncached when it is ready there", { found: [ready] }, "read b", { isConfirmed: false }],
    ["is in the other cell when that read says so", { found: [ready] }, "Moved: b leaving a"],
    ["waits for all that is wanted", { found: [inB({ readyReplicas: 1 })] }, ""],
    ["waits for the present template", { found: [inB({ updatedReplicas: 1 })] }, ""],
    ["waits until the other cell has the present spec", { found: [inB({}, "0")] }, ""],
    ["waits for quota", { found: [blocked] }, "QuotaExceeded"],
    ["waits for the other cell", { cells: [drained, { ...b, ...away }] }, "CellUnreachable"],
    ["waits for its own cell", { cells: [{ ...drained, ...away }, b], found: [ready] }, "CellUnreachable"],
    ["waits while no Cell stands for its own", { cells: [b], found: [ready] }, "CellUnreachable"],
    ["goes back when the drain ends", { cells: [aCell("a"), b] }, "MoveEnded: a leaving b"],
    [
      "goes back though it is ready",
      { cells: [aCell("a"), b], found: [aFound(drained), ready] },
      "MoveEnded: a leaving b",
    ],
    [
      "goes back when the other cell is drained too",
      { cells: [drained, aCell("b", { spec: { drain: true } })], found: [aFound(drained), ready] },
      "MoveEnded: a leaving b",
    ],
    [
      "goes on when the drain ends and its own cell has nothing, as after a backup",
      { cells: [aCell("a"), b], found: [ready] },
      "Moved: b leaving a",
    ],
    [
      "stays in the other cell, ready or not, while its own has nothing",
      { cells: [aCell("a"), aCell("b", { spec: { drain: true } })], found: [inB({ readyReplicas: 1 })] },
      "",
      { forMs: 600_000 },
    ],
    ["goes back when it takes too long", {}, "MoveTimedOut: a leaving b", { forMs: 600_000 }],
    [
      "goes on when it is ready in the last moment",
      { found: [ready] },
      "Moved: b leaving a",
      { forMs: 600_000 },
    ],
    [
      "stays when the other cell was given up",
      { cells: [drained, aCell("b", forgotten)] },
      "CellForgotten: a",
    ],
  ])("%s", (_, view, wanted, changes) =>
    expect(told(decide({ placement: moving, ...view }, changes))).toBe(wanted),
  );

  it("is looked at again when its time is over", () => {
    expect(decide({ placement: moving }, { forMs: 599_000 })).toEqual({ recheckAfterMs: 1_000 });
  });

  it("does not use the ordinals again that run on in a cell which was given up", () => {
    const { place } = decide({ placement: moving, cells: [drained, aCell("b", forgotten)] });
    expect(place?.placement).toEqual(aPlacement("a", { last: 2, lost: [1000] }));
  });
});

describe("a deployment that has moved", () => {
  const { epoch, start, uid } = aPlacement();
  const moved = aPlacement("b", { ...next, last: 2, leaving: { cell: "a", uid, epoch, start } });

  it.each<[string, Partial<MoveView>, string]>([
    ["waits for a proof", {}, ""],
    ["has left with a proof", { isGone: true }, "Left: b"],
    ["waits for the cell that it leaves", { cells: [{ ...drained, ...away }, b] }, "CellUnreachable"],
    ["does not go back when the drain ends", { cells: [aCell("a"), b] }, ""],
    ["does not move again before", { cells: [drained, aCell("b", { spec: { drain: true } })] }, ""],
    ["has left a cell that was given up", { cells: [aCell("a", forgotten), b] }, "CellForgotten: b"],
  ])("%s", (_, view, wanted) => expect(told(decide({ placement: moved, ...view }))).toBe(wanted));
});
