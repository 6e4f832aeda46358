import { describe, expect, it } from "vitest";
import { AWAY, aCell, aFound, aPlacement, aWithdrawal, going, SOURCE } from "../testing/fixtures.ts";
import { type Choice, type ChoiceView, choose, chooseNext, holderOf } from "./choose.ts";

const chosen = (view: Partial<ChoiceView> = {}): Choice =>
  choose({
    city: "DFW",
    sourceUid: SOURCE,
    placement: undefined,
    ranBefore: false,
    cells: [aCell("a"), aCell("b")],
    found: [],
    withdrawals: [],
    ...view,
  });

/** `a/1/0`: cell, epoch and start; else the reason. */
const told = (choice: Choice): string =>
  choice.is === "none"
    ? choice.reason
    : [choice.placement.cell, choice.placement.epoch, choice.placement.start].join("/");

const verdicts = ({ verdicts: all }: Choice): object =>
  Object.fromEntries(all.map(({ cell, reason }) => [cell, reason]));

describe("6: a deployment is placed in one cell of its city", () => {
  const [a, b] = [aCell("a"), aCell("b")];

  it.each<[string, Partial<ChoiceView>, string]>([
    ["the one with the least to run", { cells: [aCell("a", { assigned: 3 }), b] }, "b/1/0"],
    [
      "A3 never one of another city",
      { cells: [aCell("a", { assigned: 3 }), aCell("b", { spec: { city: "ORD" } })] },
      "a/1/0",
    ],
    [
      "H10 a code in another case is another city",
      { cells: [aCell("a", { spec: { city: "dfw" } })] },
      "NoMatchingLocation",
    ],
    ["none without cells", { cells: [] }, "NoMatchingLocation"],
    ["none that does not answer", { cells: [aCell("a", { state: AWAY }), b] }, "b/1/0"],
    ["none that takes nothing", { cells: [aCell("a", { isAccepting: false }), b] }, "b/1/0"],
    ["none that could not be read with more", { cells: [aCell("a", { isFull: true }), b] }, "b/1/0"],
    ["none without the kinds", { cells: [aCell("a", { hasApis: false }), b] }, "b/1/0"],
    ["none that was given up", { cells: [aCell("a", { spec: { forgotten: true } }), b] }, "b/1/0"],
    [
      "none whose Cell is being deleted",
      { cells: [{ ...a, cell: { ...a.cell, metadata: { name: "a", ...going } } }, b] },
      "b/1/0",
    ],
    [
      "it ran before, and a cell is away",
      { cells: [aCell("a", { state: AWAY }), b], ranBefore: true },
      "CellsNotRead",
    ],
    [
      "it ran before, and the cell that is away was given up",
      { cells: [aCell("a", { state: AWAY, spec: { forgotten: true } }), b], ranBefore: true },
      "b/1/0",
    ],
    [
      "it ran before, and no cell has it",
      { cells: [a, aCell("b", { assigned: 9 })], ranBefore: true },
      "a/1/0",
    ],
    ["a cell has it", { found: [aFound(b, { epoch: 4, start: 2000 })], cells: [a, b] }, "b/4/2000"],
    ["two cells have it", { found: [aFound(a, { epoch: 4 }), aFound(b, { epoch: 5 })] }, "b/5/0"],
    [
      "a cell has it that is being deleted",
      { cells: [a, aCell("b", { assigned: 1 })], found: [aFound(b, { metadata: going })] },
      "a/2/1000",
    ],
    [
      "a cell has another source of its name",
      { cells: [a, aCell("b", { assigned: 1 })], found: [aFound(a, { source: "older" })] },
      "b/1/1000",
    ],
    [
      "it is being withdrawn from a cell",
      { cells: [a, aCell("b", { assigned: 1 })], withdrawals: [aWithdrawal("a", { epoch: 3 })] },
      "b/4/1000",
    ],
    [
      "an older one of its name is being withdrawn",
      { cells: [a, aCell("b", { assigned: 1 })], withdrawals: [aWithdrawal("a", { sourceUid: "older" })] },
      "a/1/1000",
    ],
    [
      "a Withdrawal knows no ordinals",
      {
        withdrawals: [
          {
            ...aWithdrawal("a"),
            spec: { cell: "a", cellUid: "uid-a", namespace: "ns-U", name: "w-us-dfw", sourceUid: "older" },
          },
        ],
      },
      "NoFreeOrdinals",
    ],
    [
      "its cell was given up",
      {
        cells: [aCell("a", { spec: { forgotten: true } }), b],
        placement: aPlacement("a", { epoch: 2, last: 4 }),
      },
      "b/5/1000",
    ],
  ])("%s", (_, view, expected) => expect(told(chosen(view))).toBe(expected));

  it.each<[string, Partial<ChoiceView>, string]>([
    [
      "where the hub had it, though that cell is away",
      { cells: [aCell("a", { state: AWAY }), b] },
      "a/2/1000",
    ],
    ["in the cell that has a later one", { found: [aFound(b, { epoch: 3 })] }, "b/3/0"],
    [
      "elsewhere when that cell was given up",
      { cells: [aCell("a", { spec: { forgotten: true } }), b] },
      "b/6/0",
    ],
    ["elsewhere when it is withdrawn there", { withdrawals: [aWithdrawal("a", { epoch: 2 })] }, "b/6/2000"],
    [
      "elsewhere when that cell is of another city, whoever wrote so",
      { cells: [aCell("a", { spec: { city: "ORD" } }), b] },
      "b/6/0",
    ],
    ["there when an earlier epoch is withdrawn", { withdrawals: [aWithdrawal("a")] }, "a/2/1000"],
  ])("H16 is made again %s", (_, view, expected) => {
    const recorded = aPlacement("a", { epoch: 2, start: 1000, last: 5 });
    expect(told(chosen({ recorded, ranBefore: true, ...view }))).toBe(expected);
  });

  it("keeps the ordinals of a cell that was given up", () => {
    const cells = [aCell("a", { spec: { forgotten: true } }), aCell("b")];
    const choice = chosen({ cells, placement: aPlacement("a", { start: 1000, lost: [0] }) });
    expect(choice).toMatchObject({ isTakeover: false, placement: { start: 2000, lost: [0, 1000] } });
  });

  it("says about each cell of the city why it was not chosen", () => {
    const cells = [
      aCell("a", { assigned: 1 }),
      aCell("b"),
      aCell("c", { state: AWAY }),
      aCell("d", { isAccepting: false }),
      aCell("e", { spec: { city: "ORD" } }),
    ];
    expect(verdicts(chosen({ cells }))).toEqual({
      a: "MoreLoaded",
      b: "Chosen",
      c: "CellUnreachable",
      d: "NotAccepting",
    });
    expect(chosen({ cells: cells.slice(2) })).toMatchObject({
      message: "no cell of city DFW can take it: c: silent; d: it takes no new deployments",
    });
  });

  it("spreads equal cells by the source, and another cell moves few", () => {
    const sources = Array.from({ length: 300 }, (_, at) => `source-${at}`);
    const of = (cells: ChoiceView["cells"]): readonly string[] =>
      sources.map((sourceUid) => told(chosen({ cells, sourceUid })));
    const before = of([aCell("a"), aCell("b")]);
    const after = of([aCell("a"), aCell("b"), aCell("c")]);
    expect(before.filter((it) => it.startsWith("a")).length).toBeGreaterThan(100);
    expect(before.filter((it, at) => it !== after[at] && !after[at]?.startsWith("c"))).toEqual([]);
  });
});

describe("the cell that a deployment moves to", () => {
  const [a, b] = [aCell("a", { spec: { drain: true } }), aCell("b")];
  const placement = aPlacement("a", { epoch: 3, start: 1000, last: 4, lost: [2000] });
  const next = (view: Partial<ChoiceView> = {}): Choice =>
    chooseNext({
      city: "DFW",
      sourceUid: SOURCE,
      ranBefore: true,
      cells: [a, b],
      found: [aFound(a, { epoch: 3, start: 1000 })],
      withdrawals: [],
      ...view,
      placement,
    });

  it("gets the next epoch and ordinals of its own, and the placement stays", () => {
    const wanted = { ...placement, last: 5, next: { cell: "b", uid: "uid-b", epoch: 5, start: 0 } };
    expect(next()).toMatchObject({ is: "placed", placement: wanted });
  });

  it.each<[string, Partial<ChoiceView>, RegExp]>([
    ["the only one is left", { cells: [a] }, /^NoOtherCell: no other cell serves city DFW$/],
    [
      "the others are drained or full",
      { cells: [a, aCell("b", { spec: { drain: true } }), aCell("c", { isFull: true })] },
      /^NoOtherCell: .*: b: it is drained; c: it has 0 replicas/,
    ],
    ["one does not answer", { cells: [a, b, aCell("c", { state: AWAY })] }, /^CellsNotRead: .*: c\./],
    [
      "the other one has an earlier placement",
      { found: [aFound(a, { epoch: 3, start: 1000 }), aFound(b)] },
      /^NoOtherCell: .*b: it has an earlier placement/,
    ],
    [
      "all ordinals are held",
      {
        withdrawals: [{ ...aWithdrawal("c"), spec: { ...aWithdrawal("c").spec, start: undefined } as never }],
      },
      /^NoFreeOrdinals/,
    ],
  ])("is none when %s", (_, view, wanted) => {
    const choice = next(view);
    expect(choice.is === "none" && `${choice.reason}: ${choice.message}`).toMatch(wanted);
  });

  it("does not wait for a cell that was given up", () => {
    const cells = [a, b, aCell("c", { state: AWAY, spec: { forgotten: true } })];
    expect(next({ cells })).toMatchObject({ placement: { next: { cell: "b" } } });
  });

  it("is kept when another program deletes the deployment of the hub", () => {
    const recorded = aPlacement("a", { last: 2, next: { cell: "b", uid: "uid-b", epoch: 2, start: 1000 } });
    const inB = aFound(b, { epoch: 2, start: 1000 });
    const again = (found: ChoiceView["found"]): Choice =>
      chosen({ recorded, ranBefore: true, cells: [a, b], found });
    expect(again([aFound(a), inB])).toMatchObject({ placement: recorded });
    expect(told(again([inB]))).toBe("b/2/1000");
  });

  it("is kept with the cell that it leaves when another program deletes the deployment of the hub", () => {
    const { epoch, start, uid } = aPlacement();
    const recorded = aPlacement("b", { epoch: 2, start: 1000, leaving: { cell: "a", uid, epoch, start } });
    const found = [aFound(a), aFound(b, { epoch: 2, start: 1000 })];
    expect(chosen({ recorded, ranBefore: true, cells: [a, b], found })).toMatchObject({
      placement: recorded,
    });
  });
});

describe("the cell that has a deployment", () => {
  const [a, b] = [aCell("a"), aCell("b")];
  const found = [aFound(a, { epoch: 2 }), aFound(b, { epoch: 2 })];
  const holder = (view: Partial<ChoiceView>): string | undefined =>
    holderOf({ sourceUid: SOURCE, placement: undefined, found, withdrawals: [], ...view })?.cell.cell.metadata
      ?.name;

  it("is, of equals, where it is placed", () => {
    expect(holder({ placement: aPlacement("b") })).toBe("b");
    expect(holder({ placement: aPlacement("a") })).toBe("a");
    expect(holder({})).toBe("a");
  });

  it("is none from which it is withdrawn up to its epoch", () => {
    expect(holder({ withdrawals: [aWithdrawal("a", { epoch: 2 })] })).toBe("b");
    expect(holder({ withdrawals: [aWithdrawal("a", { epoch: 1 })] })).toBe("a");
    expect(holder({ withdrawals: [aWithdrawal("a", { epoch: 2, sourceUid: "older" })] })).toBe("a");
  });
});
