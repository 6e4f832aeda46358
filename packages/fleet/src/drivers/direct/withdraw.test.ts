import { describe, expect, it } from "vitest";
import { AWAY, aCell, aFound, aPlacement, aWithdrawal, going, onHub } from "../../hub/testing/fixtures.ts";
import {
  decideWithdrawal,
  LATE_MS,
  type StrayVerdict,
  type StrayView,
  strayVerdict,
  type WithdrawalView,
} from "./withdraw.ts";

const a = aCell("a");
const moving = aPlacement("b", { next: { cell: "a", uid: "uid-a", epoch: 1, start: 1000 } });
const placedLater = onHub({ placed: aPlacement("a", { epoch: 2 }) });

const told = (view: Partial<WithdrawalView>): string => {
  const decision = decideWithdrawal({
    withdrawal: aWithdrawal("a"),
    cell: a,
    found: [],
    hubDeployment: undefined,
    source: "gone",
    goneForMs: LATE_MS,
    ...view,
  });
  return decision.do === "end" ? `end ${decision.why}` : decision.do;
};

describe("2.12 a Withdrawal", () => {
  it.each<[string, Partial<WithdrawalView>, string]>([
    ["A20 deletes what the cell has when it is back", { found: [aFound(a)] }, "delete"],
    ["waits while the cell is away", { cell: aCell("a", { state: AWAY }) }, "wait"],
    ["waits while no Cell stands for it", { cell: undefined }, "wait"],
    [
      "deletes what a cell has that was given up, and answers again",
      { cell: aCell("a", { spec: { forgotten: true } }), found: [aFound(a)] },
      "delete",
    ],
    [
      "ends when the cell was given up",
      { cell: aCell("a", { state: AWAY, spec: { forgotten: true } }) },
      "end forgotten",
    ],
    ["waits for what is being deleted", { found: [aFound(a, { metadata: going })] }, "wait"],
    ["leaves a later epoch", { found: [aFound(a, { epoch: 2 })] }, "end done"],
    ["leaves another source", { found: [aFound(a, { source: "newer" })] }, "end done"],
    ["leaves other cells", { found: [aFound(aCell("b"))] }, "end done"],
    [
      "without an epoch deletes each",
      {
        withdrawal: {
          spec: { cell: "a", cellUid: "uid-a", namespace: "ns-U", name: "w-us-dfw", sourceUid: "source-uid" },
        },
        found: [aFound(a, { epoch: 9 })],
      },
      "delete",
    ],
    ["needs a proof", { goneForMs: undefined }, "prove"],
    ["stays while a creation may still arrive", { goneForMs: LATE_MS - 1 }, "wait"],
    ["ends two minutes after the proof", {}, "end done"],
    [
      "from a backup is void where the deployment is placed again",
      { hubDeployment: onHub(), source: "live", found: [aFound(a)] },
      "end void",
    ],
    [
      "is not void for an earlier epoch",
      { hubDeployment: placedLater, source: "live", found: [aFound(a)] },
      "delete",
    ],
    ["is not void for a source that is gone", { hubDeployment: onHub(), found: [aFound(a)] }, "delete"],
    [
      "is not void for another source of the name",
      { hubDeployment: onHub({ source: "newer" }), source: "live", found: [aFound(a)] },
      "delete",
    ],
  ])("%s", (_, view, expected) => expect(told(view)).toBe(expected));

  it("looks again when the two minutes are over", () => {
    const view = {
      withdrawal: aWithdrawal("a"),
      cell: a,
      found: [],
      hubDeployment: undefined,
      source: "gone" as const,
    };
    expect(decideWithdrawal({ ...view, goneForMs: 50_000 })).toEqual({
      do: "wait",
      recheckAfterMs: 70_000,
    });
  });
});

describe("a deployment that this hub made in a cell", () => {
  const view: StrayView = { found: aFound(a), hubDeployment: undefined, withdrawals: [], source: "gone" };
  const later = onHub({ placed: aPlacement("b", { epoch: 2 }) });

  it.each<[string, Partial<StrayView>, StrayVerdict]>([
    ["is orphaned when the hub knows nothing of it", {}, "orphaned"],
    [
      "is orphaned when the hub has a newer source of its name",
      { hubDeployment: onHub({ source: "newer" }) },
      "orphaned",
    ],
    ["is known while the hub has it", { hubDeployment: onHub() }, "known"],
    ["is superseded when the hub has it elsewhere", { hubDeployment: later }, "superseded"],
    ["is superseded when its cell was restored", { hubDeployment: placedLater }, "superseded"],
    [
      "is followed when it is later than the hub knows",
      { hubDeployment: onHub(), found: aFound(a, { epoch: 2 }) },
      "known",
    ],
    ["is known while it moves", { hubDeployment: onHub({ placed: moving }) }, "known"],
    ["ends with that of the hub", { hubDeployment: onHub({ metadata: going }) }, "known"],
    ["is known while the project wants it: the hub makes it again", { source: "live" }, "known"],
    ["is withdrawn when its source is gone", { source: "deleting" }, "known"],
    ["may be known while nothing is known of the project", { source: "unknown" }, "unknown"],
    ["is known while it is withdrawn", { withdrawals: [aWithdrawal("a")] }, "known"],
    [
      "is orphaned when an earlier epoch is withdrawn",
      { found: aFound(a, { epoch: 2 }), withdrawals: [aWithdrawal("a")] },
      "orphaned",
    ],
    ["is known while it is being deleted", { found: aFound(a, { metadata: going }) }, "known"],
  ])("%s", (_, fields, expected) => expect(strayVerdict({ ...view, ...fields })).toBe(expected));
});
