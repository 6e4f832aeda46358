/**
 * Withdrawals: what must go from a cell that did not answer. One reconciler deletes and proves in the cell, and another
 * one ends the Withdrawal, also where there is no such cell any more.
 */
import type { ObjectKey, Reconcile } from "@berth/runtime";
import { type Withdrawal, withdrawals } from "../../api/cell.ts";
import { workloadDeployments } from "../../api/workload.ts";
import { decideWithdrawal, type WithdrawalDecision } from "../../drivers/direct/withdraw.ts";
import { uidOf } from "../../hub/cells/seen.ts";
import { deletionOf } from "../intents.ts";
import type { Place } from "./knowledge.ts";
import { type HubParts, LOOK_AGAIN_MS } from "./parts.ts";
import { proveGone } from "./prove-absent.ts";
import { presentClient, Sender } from "./sender.ts";

type Decide = (withdrawal: Withdrawal) => WithdrawalDecision | undefined;

function decider({ know, memory }: HubParts): Decide {
  return (withdrawal) => {
    const { spec, metadata } = withdrawal;
    if (spec === undefined || know.hubUnread() !== undefined) return undefined;
    const place: Place = spec;
    const cell = know.cellWith(spec.cellUid);
    const id = metadata?.uid ?? "";
    if (cell?.state.is !== "synced") memory.unprove(id);
    return decideWithdrawal({
      withdrawal,
      cell,
      found: know.inCells(place, know.cellsFor(place, "", undefined)).found,
      hubDeployment: know.onHub(place),
      source: know.source(place, spec.sourceUid),
      goneForMs: memory.provenForMs(id, cell && know.engaged(cell)),
    });
  };
}

/** Its keys are Withdrawals. */
export function endWithdrawals(parts: HubParts): Reconcile<ObjectKey> {
  const { host, planes, memory } = parts;
  const sender = new Sender({
    host,
    set: planes.own.set,
    resource: withdrawals,
    action: "EndWithdrawal",
  });
  const decide = decider(parts);
  return async (key, context) => {
    const withdrawal = planes.views.withdrawals.get(key);
    if (withdrawal === undefined) return sender.forget(key);
    const decision = decide(withdrawal);
    if (decision?.do === "wait" && decision.recheckAfterMs !== undefined)
      return { recheckAfterMs: decision.recheckAfterMs };
    if (decision?.do !== "end") return undefined;
    memory.unprove(withdrawal.metadata?.uid ?? "");
    const why = {
      done: "the cell does not have it",
      forgotten: "its cell was given up",
      void: "it is wanted",
    };
    const { recheckAfterMs } = await sender.send({ key, object: withdrawal, context }, [
      deletionOf(withdrawals, withdrawal, why[decision.why], "it"),
    ]);
    return { recheckAfterMs };
  };
}

/** Its keys are Withdrawals, each in the cluster of its cell. */
export function carryWithdrawals(parts: HubParts): Reconcile<ObjectKey> {
  const { host, planes, know, memory, asked } = parts;
  const sender = new Sender({
    host,
    set: planes.own.set,
    resource: withdrawals,
    action: "WithdrawDeployment",
  });
  const decide = decider(parts);
  return async (key, context) => {
    const own = { ...key, cluster: planes.own.name };
    const withdrawal = planes.views.withdrawals.get(own);
    const cell = know.cellOf(key.cluster);
    const cluster = planes.cells.get(key.cluster);
    if (withdrawal === undefined) return sender.forget(own);
    if (cluster === undefined || cell === undefined || uidOf(cell) !== withdrawal.spec?.cellUid)
      return undefined;
    const decision = decide(withdrawal);
    const id = withdrawal.metadata?.uid ?? "";
    if (decision?.do === "delete") {
      memory.unprove(id);
      const via = presentClient(planes.cells, key.cluster);
      const { recheckAfterMs } = await sender.send({ key: own, object: withdrawal, context }, [
        deletionOf(
          workloadDeployments,
          decision.found.deployment,
          "it was deleted while the cell was away",
          "the deployment in the cell",
          via,
        ),
      ]);
      return { recheckAfterMs };
    }
    if (decision?.do !== "prove") {
      asked.withdrawals.ask([own], "high", true);
      return undefined;
    }
    await proveGone(parts, cluster, id, withdrawal.spec, context);
    return { recheckAfterMs: LOOK_AGAIN_MS };
  };
}
