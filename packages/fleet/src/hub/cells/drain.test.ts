import { expect, it } from "vitest";
import type { WorkloadDeployment } from "../../api/workload.ts";
import { aPlacement, onHub } from "../testing/fixtures.ts";
import { drainedCondition } from "./drain.ts";

const [here, there] = [aPlacement("a"), { cell: "b", uid: "uid-b", epoch: 2, start: 1000 }];
const moving = onHub({ placed: { ...here, last: 2, next: there } });
const leaving = onHub({ placed: { ...there, last: 2, leaving: here } });
const waiting = (reason: string): WorkloadDeployment => ({
  ...onHub(),
  status: {
    conditions: [{ type: "Moving", status: "False", reason, message: "", lastTransitionTime: "" }],
  } as unknown as NonNullable<WorkloadDeployment["status"]>,
});

it("what has left is not counted", () => {
  const view = { uid: "uid-a", placed: [leaving], withdrawn: 0, isThere: () => false };
  expect(drainedCondition(view).status).toBe("True");
});

it.each<[readonly WorkloadDeployment[], number, string]>([
  [[], 0, "True/Drained: no deployment is in it"],
  [[], 1, "False/Draining: 1 deployment left: 1 leaving"],
  [
    [moving, leaving, onHub(), onHub()],
    0,
    "False/Draining: 4 deployments left: 1 becoming ready in another cell, 1 leaving, 2 waiting for others",
  ],
  [
    [waiting("NoOtherCell"), waiting("QuotaExceeded"), waiting("NoOtherCell")],
    0,
    "False/Waiting: 3 deployments left: 2 cannot leave (NoOtherCell), 1 cannot leave (QuotaExceeded)",
  ],
])("the drain of a cell (%#)", (placed, withdrawn, wanted) => {
  const { status, reason, message } = drainedCondition({
    uid: "uid-a",
    placed,
    withdrawn,
    isThere: () => true,
  });
  expect(`${status}/${reason}: ${message}`).toBe(wanted);
});
