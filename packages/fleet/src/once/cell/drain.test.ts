import { expect, it } from "vitest";
import { aCondition } from "../../deployment/testing/fixtures.ts";
import { aHubNamespace, aPlacement, onHub } from "../../hub/testing/fixtures.ts";
import { type DrainView, drainPlanOf, drainSeen, formatDrainPlan } from "./drain.ts";

const aCell = (name: string, status = "True" as const) => ({
  metadata: { name },
  spec: { city: "DFW", uid: `uid-${name}`, secretRef: { name } },
  status: { conditions: [aCondition("Reachable", status, "Heard")] },
});
const deployment = (name: string, min: number, cell = "a") => {
  const { metadata, ...rest } = onHub({ min, placed: aPlacement(cell) });
  return { ...rest, metadata: { ...metadata, name } };
};
const textOf = (view: Partial<DrainView["planes"]>, atOnce = 10): string =>
  formatDrainPlan(
    drainPlanOf({
      cell: aCell("a"),
      planes: { cells: [aCell("a"), aCell("b"), aCell("c")], deployments: [], withdrawals: [], ...view },
      namespaces: [aHubNamespace()],
      atOnce,
    }),
  );

it("the plan of a drain has the order, the cells that have room, and the quota of those that move at once", () => {
  const deployments = [deployment("z", 1), deployment("y", 3), deployment("x", 2), deployment("w", 2, "b")];
  expect(
    textOf({ deployments }, 2),
  ).toBe(`Cell a in DFW has 3 deployments. They move in this order, at most 2 at once:
  web/default/x   2 Instances   to c
  web/default/y   3 Instances   to c
  web/default/z   1 Instance    to b
Quota that projects need meanwhile, beside what they use, at most:
  web: 5 Instances
`);
});

it.each<[string, Partial<DrainView["planes"]>, RegExp]>([
  ["nothing is there", {}, /^Cell a in DFW has no deployment.\n$/],
  [
    "no other cell serves the city",
    { cells: [aCell("a")], deployments: [deployment("x", 1)] },
    /x {3}1 Instance {3}stays: NoOtherCell: no other cell serves city DFW\n$/,
  ],
])("the plan says that %s", (_, view, wanted) => expect(textOf(view)).toMatch(wanted));

it("what a Berth says of an earlier drain does not count", () => {
  const cell = (observedGeneration: number) => ({
    metadata: { generation: 2 },
    status: { conditions: [{ ...aCondition("Drained", "True", "Drained"), observedGeneration }] },
  });
  expect([cell(1), cell(2)].map((it) => drainSeen(it).is)).toEqual(["unseen", "drained"]);
});
