import { describe, expect, it } from "vitest";
import type { CellPlacement } from "../api/placement.ts";
import { aCondition, anInstance, withCondition } from "../deployment/testing/fixtures.ts";
import { aPlacement } from "../hub/testing/fixtures.ts";
import { explainInstance, explainWorkload } from "./explain.ts";
import { forecastWorkload } from "./forecast.ts";
import { cellsSeen, isCarried, type PlaneFacts, placingOf } from "./planes.ts";
import { formatExplanation } from "./show.ts";
import { formatForecast } from "./show-forecast.ts";
import { aDeployment, aWorkload, factsOf, instancesIn, NOW_MS, placement, plain } from "./testing/facts.ts";
import {
  aCarried,
  aCellObject,
  anAwayCell,
  inCellOf,
  planesOf,
  staleStatus,
  statusOf,
} from "./testing/planes.ts";

const workload = aWorkload({ placements: [placement("us", ["DFW"], 2)] });
const carried = aCarried({ status: statusOf(2) });
const instances = instancesIn(carried, "R R");
const [a, b] = [aCellObject("a"), aCellObject("b")];
const onA = planesOf({ cells: [a, b], deployments: [inCellOf(carried)] });
const planes = onA;
const inB = { cell: "b", uid: "uid-b", epoch: 2, start: 1000 };

const explained = (facts: Parameters<typeof factsOf>[0]): string =>
  formatExplanation(
    explainWorkload(workload, factsOf({ deployments: [carried], instances, planes: onA, ...facts })),
    NOW_MS,
    plain,
  );

describe("cells as their statuses tell", () => {
  it.each<[string, PlaneFacts["cells"][number], object]>([
    ["heard", a, { state: { is: "synced" }, hasApis: true, isAccepting: true }],
    ["silent", anAwayCell("a"), { state: { is: "away", reason: "CellUnreachable" } }],
    ["without Berth", anAwayCell("a", "NotRunning"), { state: { is: "away", reason: "CellUnheard" } }],
    ["not looked at", aCellObject("a", "DFW", {}), { state: { is: "away", reason: "CellUnreachable" } }],
    [
      "without the kinds",
      aCellObject("a", "DFW", { conditions: [aCondition("Accepting", "False", "ApiMissing")] }),
      { hasApis: false, isAccepting: true },
    ],
    [
      "that takes nothing",
      aCellObject("a", "DFW", { conditions: [aCondition("Accepting", "False", "NotAccepting")] }),
      { hasApis: true, isAccepting: false },
    ],
  ])("%s", (_, cell, expected) => {
    expect(cellsSeen(planesOf({ cells: [cell] }))).toMatchObject([expected]);
  });

  it("have the replicas that are placed there, and those that are about to be", () => {
    expect(cellsSeen(planes, new Map([["uid-b", 3]])).map(({ assigned }) => assigned)).toEqual([2, 3]);
  });
});

describe("a deployment is carried", () => {
  it.each([
    ["in a project", carried, true],
    ["on a hub", inCellOf(carried), true],
    ["not in a cell or in mode single", aDeployment(), false],
  ])("%s", (_, deployment, expected) => {
    expect(isCarried(deployment)).toBe(expected);
  });
});

describe("placingOf", () => {
  it("keeps the placement of the hub, else the recorded one, whatever the cell says", () => {
    const recorded = aCarried({ metadata: { annotations: { "berth.dev/placement": placedText("b") } } });
    expect(
      placingOf(carried, planesOf({ cells: [anAwayCell("a")], deployments: [inCellOf(carried)] })),
    ).toMatchObject({
      placement: { cell: "a" },
    });
    expect(placingOf(recorded, planesOf({ cells: [a] }))).toMatchObject({ placement: { cell: "b" } });
  });

  it("chooses where there is none, with the verdict on each cell of the city", () => {
    const cells = [a, anAwayCell("c"), aCellObject("o", "ORD")];
    expect(placingOf(aCarried(), planesOf({ cells }))).toMatchObject({
      choice: { is: "placed", placement: { cell: "a" } },
      verdicts: [
        { cell: "a", reason: "Chosen" },
        { cell: "c", reason: "CellUnreachable" },
      ],
    });
  });
});

function placedText(cell: string): string {
  return JSON.stringify({ v: 1, ...aPlacement(cell) });
}

describe("explain over planes", () => {
  it("names the cell, and the verdict on each other one", () => {
    expect(explained({})).toMatchInlineSnapshot(`
      "Workload default/w: nothing blocks it
        next look   on the next change of its cells or the hub

      Workload w                       2/2 ready   us: DFW
      └─ WorkloadDeployment w-us-dfw   2/2 ready   DFW
         ├─ Cell a                     heard       it is placed here
         ├─ Cell b                     not here    it would do, and deployments stay where they are
         ├─ Instance w-us-dfw-0        ready
         └─ Instance w-us-dfw-1        ready
      "
    `);
  });

  it.each<[string, CellPlacement, string[]]>([
    ["moves", aPlacement("a", { last: 2, next: inB }), ["it is placed here", "it moves here"]],
    [
      "has moved",
      aPlacement("b", { ...inB, last: 2, leaving: aPlacement() }),
      ["it leaves", "it is placed here"],
    ],
  ])("names both cells while it %s", (_, placed, wanted) => {
    const text = explained({ planes: planesOf({ cells: [a, b], deployments: [inCellOf(carried, placed)] }) });
    const details = ["a", "b"].map((cell) => new RegExp(`─ Cell ${cell} +heard +(.*)`).exec(text)?.[1]);
    expect(details).toEqual(wanted);
  });

  it("says why it cannot leave a cell that is drained", () => {
    const conditions = [aCondition("Moving", "False", "NoOtherCell", "no other cell serves city DFW")];
    const stays = aCarried({ status: statusOf(2, { conditions }) });
    expect(explained({ deployments: [stays] })).toMatch(
      /─ Cell a +heard +it cannot leave: NoOtherCell: no other cell serves city DFW\n/,
    );
  });

  it("puts a silent cell at the top, with the time since it was heard", () => {
    const stale = aCarried({ status: staleStatus });
    const away = planesOf({ cells: [anAwayCell("a")], deployments: [inCellOf(stale)] });
    expect(explained({ deployments: [stale], planes: away })).toMatchInlineSnapshot(`
      "CellUnreachable: WorkloadDeployment default/w-us-dfw: cell a does not answer
        since        2026-01-01T00:00:00Z (2m)
        what helps   The API server of the cell must answer again; \`berth cell list\` says why it does not. What runs there goes on.
        next look    on the next change of its cells or the hub

      Workload w                       2/2 ready   us: DFW
      └─ WorkloadDeployment w-us-dfw   2/2 ready   DFW, 2 of the ready ones not heard of for 2m
         ├─ Cell a                     not heard   it is placed here; for 2m, CellUnreachable: no answer for 8s
         ├─ Instance w-us-dfw-0        ready
         └─ Instance w-us-dfw-1        ready
      "
    `);
    const [first] = instancesIn(stale, "R");
    if (first === undefined) throw new Error("there is no Instance");
    const one = explainInstance(first, factsOf({ deployments: [stale], planes: away }));
    expect(one).toMatchObject({
      about: "Instance default/w-us-dfw-0",
      blocking: { reason: "CellUnreachable", about: "WorkloadDeployment default/w-us-dfw" },
      since: staleStatus.since,
      tree: { state: "ready", children: [] },
    });
  });

  it("shows the reason of an Instance in a cell, and foresees nothing there", () => {
    const message = "no image";
    const bad = withCondition(
      anInstance(carried, 1, "N"),
      aCondition("Ready", "False", "ImageUnavailable", message),
    );
    const text = explained({ instances: [...instances.slice(0, 1), bad] });
    expect(text).toMatch(/^ImageUnavailable: Instance default\/w-us-dfw-1: no image\n/);
    expect(text).toMatch(/next look +on the next change of its cells or the hub\n/);
  });

  it("says that its cell has not confirmed the present template", () => {
    const late = aCarried({ metadata: { generation: 2 }, status: statusOf(2) });
    expect(explained({ deployments: [late] })).toContain(
      "DFW, its cell has not confirmed the present template",
    );
  });

  it("says which cells refuse it where none takes it", () => {
    const message = "no cell of city DFW can take it: a: no answer for 8s";
    const conditions = [aCondition("Available", "False", "NoMatchingLocation", message)];
    const nowhere = aCarried({ status: statusOf(0, { replicas: 0, conditions }) });
    const text = explained({
      deployments: [nowhere],
      instances: [],
      planes: planesOf({ cells: [anAwayCell("a")] }),
    });
    expect(text).toMatch(/^NoMatchingLocation: .*no cell of city DFW/);
    expect(text).toMatch(/what helps +Add a cell of the city/);
    expect(text).toMatch(/─ Cell a +not here +CellUnreachable: no answer for 8s\n/);
  });
});

describe("plan over planes", () => {
  const planned = (cells: PlaneFacts["cells"], more: Partial<PlaneFacts> = {}, cities = ["DFW"]) =>
    forecastWorkload(
      aWorkload({ placements: [placement("us", cities, 2)] }),
      factsOf({ planes: planesOf({ cells, ...more }) }),
    );

  it("names the cell of each new deployment, and why", () => {
    const other = inCellOf(aCarried({ name: "x-us-dfw" }));
    const cells = [a, b, aCellObject("o", "ORD")];
    const forecast = planned(cells, { deployments: [other] }, ["DFW", "ORD"]);
    expect(forecast.deployments.map(({ cell }) => [cell?.names, cell?.why])).toEqual([
      [["b"], "it has 0 replicas, the fewest"],
      [["o"], "the only cell of its city"],
    ]);
    expect(forecast.needsClaims).toBeUndefined();
    expect(formatForecast(forecast, plain)).toMatchInlineSnapshot(`
      "Workload default/w

      us in DFW: w-us-dfw is created in cell b: it has 0 replicas, the fewest
        1.   + w-us-dfw-0   1 vCPU, 2048 MiB
        2.   + w-us-dfw-1   1 vCPU, 2048 MiB

      us in ORD: w-us-ord is created in cell o: the only cell of its city
        1.   + w-us-ord-0   1 vCPU, 2048 MiB
        2.   + w-us-ord-1   1 vCPU, 2048 MiB

      Instances: 4 to create, one after the other in each city. Quota: +4 Instances, +4 vCPUs, +8192 MiB.
      "
    `);
  });

  it("names all that would do equally, and counts what it has placed", () => {
    const forecast = forecastWorkload(
      aWorkload({ placements: ["us", "eu", "as"].map((it) => placement(it, ["DFW"], 2)) }),
      factsOf({ planes: planesOf({ cells: [a, b] }) }),
    );
    expect(forecast.deployments.map(({ cell }) => cell?.names)).toEqual([["a", "b"], ["b"], ["a", "b"]]);
  });

  it("creates no Instance where no cell takes it", () => {
    const { deployments } = planned([anAwayCell("a")]);
    expect(deployments).toMatchObject([
      {
        steps: [],
        cell: { names: [] },
        stops: expect.stringMatching(/^NoMatchingLocation: .*a: no answer for 8s$/),
      },
    ]);
  });

  const warnedOf = (cells: PlaneFacts["cells"], codes: string) => {
    const silenced = aWorkload({ placements: [placement("us", ["DFW"], 2)] });
    const metadata = { ...silenced.metadata, annotations: { "berth.dev/silence": codes } };
    return forecastWorkload({ ...silenced, metadata }, factsOf({ planes: planesOf({ cells }) }));
  };

  it.each<[string, PlaneFacts["cells"], string]>([
    ["CityWithoutCell", [], "no cell serves it"],
    ["NoCellTakesIt", [anAwayCell("a")], "none of its cells takes it (a: no answer for 8s)"],
  ])("warns about a city where nothing would run, unless that is silenced: %s", (code, cells, why) => {
    const message = `nothing of the placement us runs in DFW: ${why}`;
    const found = warnedOf(cells, "Other");
    expect(found.warnings).toEqual([{ code, message }]);
    expect(formatForecast(found, plain)).toContain(`\ndefault/w: ${message} (${code}).\n`);
    expect(warnedOf(cells, `Other, ${code}`).warnings).toEqual([]);
  });

  it("does not warn about a city of which one cell takes it", () => {
    expect(warnedOf([a, anAwayCell("b")], "").warnings).toEqual([]);
  });

  it("leaves a deployment in its cell, with the ordinals that it has there", () => {
    const placed = aPlacement("a", { start: 1000 });
    const there = aCarried({ status: statusOf(2) });
    const forecast = forecastWorkload(
      aWorkload({ placements: [placement("us", ["DFW"], 3)] }),
      factsOf({
        deployments: [there],
        instances: [1000, 1001].map((it) => anInstance(there, it)),
        planes: planesOf({ cells: [a, b], deployments: [inCellOf(there, placed)] }),
      }),
    );
    expect(forecast.deployments).toMatchObject([
      {
        is: "changed",
        cell: { names: ["a"], why: "it is there" },
        steps: [{ do: "create", instance: "w-us-dfw-1002" }],
      },
    ]);
  });

  it("takes cities of Cells for cities that Workloads may name", () => {
    expect(planned([aCellObject("n", "NYC")], {}, ["NYC"])).toMatchObject({
      findings: [],
      deployments: [{ city: "NYC", cell: { names: ["n"] } }],
    });
  });
});
