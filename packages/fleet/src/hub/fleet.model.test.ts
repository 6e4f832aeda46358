/** Random histories of a fleet: what is never true of two cells, and what is true in the end. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun, steps } from "../../../runtime/src/testing/property.ts";
import { workloadDeployments } from "../api/workload.ts";
import { FleetModel, NAMES, PASSES } from "./testing/fleet-model.ts";

const name = fc.constantFrom(...NAMES);
const at = fc.nat(1);
const min = fc.constantFrom(0, 1, 2);
const image = fc.constantFrom("app:1", "app:2");
const fate = fc.constantFrom("answered", "answered", "answered", "answered", "unanswered", "late", "lost");
const plane = fc.constantFrom("project", "hub", "own", "a", "b");
const changes = fc.constantFrom(1, 2, 3, 5, 8, 13, 21, 34);

/** How far Berth and the cells get afterwards. */
const rounds = fc.constantFrom(0, 0, 0, 1, 2, 4, 7);
const late = fc.constantFrom(undefined, undefined, "carry", "federate");
const step = fc.oneof(
  steps(26, PASSES, { name, fate }),
  steps(10, ["see"], { plane, states: fc.constantFrom(1, 3, Number.POSITIVE_INFINITY) }),
  steps(6, ["cell"], { at, count: fc.integer({ min: 1, max: 6 }) }),
  steps(14, ["round"], { name, rounds, late }),
  steps(14, ["create", "create", "change", "remove", "remove"], { name, min, image, rounds }),
  steps(10, ["remove-on-hub", "strip-on-hub"], { name, rounds }),
  steps(16, ["cut", "back"], { plane, isNoticed: fc.boolean(), rounds }),
  steps(6, ["restore"], { plane, changes, rounds }),
  steps(3, ["remove-namespace", "relabel"], { rounds }),
  steps(4, ["restart"], { rounds, lag: fc.constantFrom(undefined, 1, 2, 4, 8) }),
  steps(4, ["adopt", "withdraw"], { name, rounds }),
  steps(4, ["remove-cell", "forget"], { at: fc.constant(0), rounds }),
  steps(12, ["drain", "drain", "undrain"], { at, rounds }),
  steps(6, ["deliver"], { which: fc.nat(5) }),
  steps(6, ["advance"], { ms: fc.constantFrom(1_000, 20_000, 70_000, 130_000) }),
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

function planeOf(model: FleetModel, named: string) {
  const cell = model.cells.find((it) => it.name === named);
  return cell ?? (named === "project" ? model.project : named === "hub" ? model.hub : model.own);
}

function take(model: FleetModel, one: Step): void {
  if ("fate" in one) model.pass(one.do, one.name, one.fate);
  else if ("states" in one) planeOf(model, one.plane).see(one.states);
  else if ("which" in one) model.deliver(one.which);
  else if ("ms" in one) model.advance(one.ms);
  else if ("count" in one) {
    for (const cell of model.cells.slice(one.at, one.at + 1))
      for (let left = one.count; left > 0; left -= 1) model.cellStep(cell);
  } else happen(model, one);
}

function happen(model: FleetModel, one: Extract<Step, { rounds: number }>): void {
  if ("changes" in one) model.restore(planeOf(model, one.plane), one.changes);
  else if ("isNoticed" in one) {
    const found = planeOf(model, one.plane);
    found.isReachable = one.do === "back";
    if (one.isNoticed) found.probe();
  } else if ("at" in one) {
    const { name: of = "" } = model.cells[one.at] ?? {};
    if (one.do === "forget") model.forget(of);
    else if (one.do === "remove-cell") model.removeCell(of);
    else model.drain(of, one.do === "drain");
  } else if ("image" in one) {
    if (one.do === "create") model.create(one.name, one.min);
    else if (one.do === "change") model.change(one.name, one.min, one.image);
    else model.remove(one.name);
  } else if (one.do === "remove-on-hub") model.removeOnHub(one.name);
  else if (one.do === "adopt" || one.do === "withdraw") model.decideOrphans(one.name, one.do);
  else if (one.do === "strip-on-hub") model.stripOnHub(one.name);
  else if (one.do === "restart") model.restart("lag" in one ? one.lag : undefined);
  else if (one.do === "relabel") model.relabel("other");
  else if (one.do === "remove-namespace") model.removeHubNamespace();
  for (let left = one.rounds; left > 0; left -= 1)
    model.round("name" in one ? one.name : "w0", "late" in one ? one.late : undefined);
}

describe.each([
  ["", 0, 200],
  [" whose clock is ten minutes ahead of those of its planes", 600_000, 50],
  [" whose clock is ten minutes behind those of its planes", -600_000, 50],
])("any history of a fleet%s", (_, aheadMs, runs) => {
  const run = seededRun(runs, process.env);
  it(
    `has no slot with two owners, no false number, and in the end what is wanted and nothing else (${run.name})`,
    run.options,
    () => {
      fc.assert(
        fc.property(
          fc.array(step, { maxLength: 40 }),
          fc.boolean(),
          fc.nat(14),
          (history, isSelf, rounds) => {
            const model = new FleetModel(isSelf, aheadMs);
            model.create("w0", 2);
            for (let count = 0; count < rounds; count += 1) model.round("w0");
            for (const one of history) take(model, one);
            model.settle();
            expect(model.violations).toEqual([]);
          },
        ),
        run.parameters,
      );
    },
  );
});

/** What operators and networks do, once every ten minutes. */
const event = fc.oneof(
  steps(6, ["create", "change", "remove"], { name, min, image, rounds }),
  steps(6, ["cut", "back", "back"], { plane, isNoticed: fc.boolean(), rounds }),
  steps(2, ["restore"], { plane: fc.constantFrom("hub", "own", "a", "b"), changes, rounds }),
  steps(2, ["restart"], { rounds, lag: fc.constantFrom(undefined, 1, 2, 4, 8) }),
  steps(1, ["remove-cell"], { at: fc.constant(0), rounds }),
  steps(4, ["drain", "undrain"], { at, rounds }),
);
const HOURS = 72;

describe("72 hours of joins, losses, returns, drains and restores", () => {
  const run = seededRun(1, process.env);
  it(
    `have no slot with two owners and no false number, and end with what is wanted (${run.name})`,
    run.options,
    () => {
      const count = HOURS * 6;
      fc.assert(
        fc.property(
          fc.array(event, { minLength: count, maxLength: count }),
          fc.boolean(),
          (history, isSelf) => {
            const model = new FleetModel(isSelf);
            const startedMs = model.nowMs;
            for (const name of NAMES) model.create(name, 2);
            for (const one of history) {
              happen(model, one);
              for (let minutes = 0; minutes < 10; minutes += 2) {
                for (const of of NAMES) model.round(of);
                model.advance(120_000);
              }
              for (const cell of model.cells) model.addCell(cell.name);
            }
            expect(model.nowMs - startedMs).toBeGreaterThanOrEqual(HOURS * 3_600_000);
            model.settle();
            expect(model.violations).toEqual([]);
          },
        ),
        { ...run.parameters, endOnFailure: true },
      );
    },
  );
});

describe("a history that random ones reach seldom", () => {
  const rounds = (model: FleetModel, count: number, late?: "carry"): void => {
    for (let left = count; left > 0; left -= 1) model.round("w0", late);
  };
  /** The namespace arrives, and the deployment is still on its way to the cell. */
  const createLate = (model: FleetModel): void => {
    rounds(model, 1);
    rounds(model, 1, "carry");
    model.deliver(0);
    rounds(model, 1, "carry");
  };
  const cutOff = (model: FleetModel, cell: string | undefined): void => {
    for (const plane of model.cells.filter((it) => it.name === cell)) {
      plane.isReachable = false;
      plane.probe();
    }
  };

  const untilMoved = (model: FleetModel, from: string): void => {
    for (let left = 20; left > 0 && model.cellOf("w0") === from; left -= 1) rounds(model, 1);
  };

  it("a creation arrives after its move was given up, and nothing is left of it", () => {
    const model = new FleetModel(false);
    model.create("w0", 2);
    rounds(model, 10);
    const from = model.cellOf("w0") ?? "";
    model.drain(from, true);
    rounds(model, 1);
    // The namespace arrives, and the deployment is still on its way.
    rounds(model, 1, "carry");
    model.deliver(0);
    rounds(model, 1, "carry");
    model.drain(from, false);
    rounds(model, 8);
    expect(model.cells.flatMap((it) => it.now(workloadDeployments))).toHaveLength(1);
    model.deliver(0);
    expect(model.cells.flatMap((it) => it.now(workloadDeployments))).toHaveLength(2);
    model.settle();
    expect(model.cells.flatMap((it) => it.now(workloadDeployments))).toHaveLength(1);
    expect([model.cellOf("w0"), model.violations]).toEqual([from, []]);
  });

  it("the view of the cell that it leaves is behind, and nothing is left in it", () => {
    const model = new FleetModel(false);
    model.create("w0", 2);
    rounds(model, 10);
    const from = model.cells.find((it) => it.name === model.cellOf("w0"));
    if (from === undefined) throw new Error("it is in no cell");
    const before = from.version - from.oldest;
    model.drain(from.name, true);
    untilMoved(model, from.name);
    model.restart(0);
    from.lag(before);
    model.advance(130_000);
    for (let left = 4; left > 0; left -= 1) {
      for (const plane of model.planes) if (plane !== from) plane.see();
      for (const what of PASSES) model.pass(what, "w0");
    }
    model.settle();
    expect(from.now(workloadDeployments)).toEqual([]);
    expect(model.violations).toEqual([]);
  });

  it.each<[string, (model: FleetModel) => void]>([
    [
      "it is deleted while the cell that it leaves is away",
      (model) => {
        rounds(model, 10);
        const from = model.cellOf("w0") ?? "";
        model.drain(from, true);
        untilMoved(model, from);
        cutOff(model, from);
        model.remove("w0");
        rounds(model, 8);
        expect(model.hub.now(workloadDeployments)).toEqual([]);
      },
    ],
    [
      "a creation arrives after the deployment is gone",
      (model) => {
        createLate(model);
        model.remove("w0");
        rounds(model, 6);
        expect(model.cells.flatMap((it) => it.now(workloadDeployments))).toEqual([]);
        model.deliver(0);
        expect(model.cells.flatMap((it) => it.now(workloadDeployments))).toHaveLength(1);
      },
    ],
    [
      "the same after another process has taken the lead",
      (model) => {
        createLate(model);
        model.restart();
        model.remove("w0");
        rounds(model, 6);
        model.deliver(0);
      },
    ],
    [
      "another process leads, whose watch of the project is behind what was federated",
      (model) => {
        rounds(model, 6);
        model.restart(0);
        model.project.lag(model.project.version - model.project.oldest);
        for (const what of PASSES) {
          model.pass(what, "w0");
          for (const plane of model.planes) if (plane !== model.project) plane.see();
        }
        expect(model.cells.flatMap((it) => it.now(workloadDeployments))).toHaveLength(1);
      },
    ],
    [
      "another process leads, whose watch of the project is behind a change, and the project is away",
      (model) => {
        rounds(model, 6);
        const before = model.project.version;
        model.change("w0", 2, "app:2");
        rounds(model, 6);
        model.project.isReachable = false;
        model.restart(0);
        model.project.lag(model.project.version - before);
        rounds(model, 4);
      },
    ],
    [
      "the hub is put back to before a change, and another process leads, whose watch of the project is as old, and the project is away",
      (model) => {
        rounds(model, 6);
        const before = [model.hub.version, model.project.version] as const;
        model.change("w0", 2, "app:2");
        rounds(model, 6);
        model.project.isReachable = false;
        model.restore(model.hub, model.hub.version - before[0]);
        model.restart(0);
        model.project.lag(model.project.version - before[1]);
        rounds(model, 4);
      },
    ],
    [
      "the name is used again after the hub was put back to before what its cell has, which is away",
      (model) => {
        const before = model.hub.version;
        rounds(model, 8);
        cutOff(model, model.cellOf("w0"));
        model.remove("w0");
        rounds(model, 6);
        model.restore(model.hub, model.hub.version - before);
        model.restore(model.own, model.own.version - model.own.oldest);
        for (const plane of model.planes) plane.probe();
        model.create("w0", 2);
        rounds(model, 10);
        // A person has to look at the first one.
        expect(model.cells.map((it) => it.now(workloadDeployments).length)).toEqual([1, 1]);
      },
    ],
    [
      "the labels of the namespace on the hub are edited, and corrected later",
      (model) => {
        rounds(model, 8);
        model.relabel("other");
        rounds(model, 6);
      },
    ],
    [
      "the name is used again while the cell with the old one is away",
      (model) => {
        rounds(model, 8);
        cutOff(model, model.cellOf("w0"));
        model.remove("w0");
        rounds(model, 6);
        model.create("w0", 2);
        rounds(model, 10);
        expect(model.cells.map((it) => it.now(workloadDeployments).length)).toEqual([1, 1]);
      },
    ],
    [
      "the hub's deployment is deleted before the first status, with its cell away",
      (model) => {
        rounds(model, 3);
        cutOff(model, model.cellOf("w0"));
        model.removeOnHub("w0");
        rounds(model, 8);
      },
    ],
    [
      "the hub's deployment is lost, then deleted in the project",
      (model) => {
        rounds(model, 8);
        model.stripOnHub("w0");
        model.remove("w0");
        rounds(model, 4);
      },
    ],
    [
      "the hub loses the status while the cell is away",
      (model) => {
        rounds(model, 10);
        cutOff(model, model.cellOf("w0"));
        model.stripOnHub("w0");
        rounds(model, 4);
      },
    ],
    [
      "the hub is put back to before a change that its cell has, and carries before it federates",
      (model) => {
        rounds(model, 8);
        const before = model.hub.version;
        model.change("w0", 2, "app:2");
        rounds(model, 6);
        model.restore(model.hub, model.hub.version - before);
        model.hub.probe();
        model.pass("carry", "w0");
      },
    ],
    [
      "the hub is put back to the middle of a move that has ended, and the drain with it",
      (model) => {
        rounds(model, 10);
        const from = model.cellOf("w0") ?? "";
        model.drain(from, true);
        rounds(model, 2);
        const before = model.hub.version;
        untilMoved(model, from);
        rounds(model, 6);
        model.drain(from, false);
        const uids = () =>
          model.cells.flatMap((it) => it.now(workloadDeployments).map(({ metadata }) => metadata?.uid));
        const running = uids();
        expect(running).toHaveLength(1);
        model.restore(model.hub, model.hub.version - before);
        model.hub.probe();
        expect(model.cellOf("w0")).toBe(from);
        rounds(model, 8);
        expect(uids()).toEqual(running);
      },
    ],
    [
      "the cell is given up, and its Cell is deleted at once",
      (model) => {
        rounds(model, 8);
        const cell = model.cellOf("w0") ?? "";
        cutOff(model, cell);
        model.forget(cell);
        model.removeCell(cell);
        rounds(model, 8);
        expect(model.cellOf("w0")).not.toBe(cell);
      },
    ],
    [
      "the cell is given up, and a backup of Berth's objects takes that back",
      (model) => {
        rounds(model, 8);
        const cell = model.cellOf("w0") ?? "";
        cutOff(model, cell);
        model.forget(cell);
        rounds(model, 6);
        model.restore(model.own, 1);
        for (const plane of model.cells) plane.isReachable = true;
        rounds(model, 6);
      },
    ],
    [
      "the cell is given up, and backups of both planes of Berth take that back",
      (model) => {
        rounds(model, 8);
        const cell = model.cellOf("w0") ?? "";
        const before = model.hub.version;
        cutOff(model, cell);
        model.forget(cell);
        rounds(model, 8);
        expect(model.cellOf("w0")).not.toBe(cell);
        model.restore(model.own, 1);
        model.restore(model.hub, model.hub.version - before);
        expect(model.cellOf("w0")).toBe(cell);
      },
    ],
  ])("%s", (_, happens) => {
    const model = new FleetModel(false);
    model.create("w0", 2);
    happens(model);
    model.settle();
    expect(model.violations).toEqual([]);
  });
});
