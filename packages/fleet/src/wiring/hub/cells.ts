/** The status and the end of Cells. Its keys are Cells. */
import {
  type DesiredCondition,
  findCondition,
  mergeConditions,
  type ObjectKey,
  type Reconcile,
  toTime,
} from "@berth/runtime";
import { type CellStatus, cells } from "../../api/cell.ts";
import { finalizers, annotations as keys } from "../../api/keys.ts";
import { type CellSeen, isForgotten, mayEnd, uidOf } from "../../hub/cells/seen.ts";
import { isDeleting } from "../../hub/source.ts";
import { finalizersTo, statusTo } from "../intents.ts";
import type { CellMembers, CellProblem } from "./cell-members.ts";
import type { HubParts } from "./parts.ts";
import { hubBy } from "./planes.ts";
import { Sender } from "./sender.ts";

export function cellStatuses(parts: HubParts, members: CellMembers): Reconcile<ObjectKey> {
  const { host, planes, know } = parts;
  const sender = new Sender({ host, set: planes.own.set, resource: cells, action: "WatchCell" });
  return async (key, context) => {
    const seen = know.cellOf(key.name as ObjectKey["cluster"]);
    if (seen === undefined) return sender.forget(key);
    const { cell } = seen;
    const sending = { key, object: cell, context };
    const listed = cell.metadata?.finalizers ?? [];
    const hasOurs = listed.includes(finalizers.cell);
    if (!isDeleting(cell) && !hasOurs)
      await sender.send(sending, [finalizersTo([...listed, finalizers.cell])]);
    else if (hasOurs && know.hubUnread() === undefined && mayEnd({ seen, ...usesOf(parts, seen) }))
      await sender.send(sending, [finalizersTo(listed.filter((it) => it !== finalizers.cell))]);
    const status = statusOf(parts, seen, members.problemOf(key.name));
    if (status === undefined) return undefined;
    const { reason = "", message = "", status: is } = findCondition(status.conditions, "Reachable") ?? {};
    const isNews = findCondition(cell.status?.conditions, "Reachable")?.reason !== reason;
    const { recheckAfterMs } = await sender.send(sending, [
      {
        ...statusTo(status, reason, message, cell.status),
        ...(isNews && { announce: is === "True" ? ("Normal" as const) : ("Warning" as const) }),
      },
    ]);
    return { recheckAfterMs };
  };
}

function usesOf(
  { planes, know }: HubParts,
  seen: CellSeen,
): { readonly isNamed: boolean; readonly hasDeployments: boolean } {
  const { own, views } = planes;
  const uid = uidOf(seen);
  const placed = know.placedIn(uid);
  const withdrawn = views.withdrawals.byIndex(hubBy.cellUid, uid, own.name);
  const there = views.cell.deployments.list(seen.cell.metadata?.name as ObjectKey["cluster"]);
  return {
    isNamed: placed.length > 0 || withdrawn.length > 0,
    hasDeployments: [...there].some(({ metadata }) => metadata?.annotations?.[keys.hubUid] === know.hubUid),
  };
}

/** `undefined`: it is stored already, or nothing is known yet. */
function statusOf(parts: HubParts, seen: CellSeen, problem: CellProblem | undefined): CellStatus | undefined {
  const { host, know, planes } = parts;
  const { cell } = seen;
  const engaged = know.engaged(seen);
  if (problem === undefined && engaged === undefined) return undefined;
  const wrongName = know.wrongNameIn(seen);
  const reachable = reachableOf(seen, problem, engaged?.reach, wrongName);
  const name = cell.metadata?.name as ObjectKey["cluster"];
  const isMissing = planes.views.cell.deployments.state(name) === "absent";
  const accepting: DesiredCondition = isForgotten(seen)
    ? { type: "Accepting", status: "False", reason: "CellForgotten", message: "it was given up" }
    : isDeleting(cell)
      ? { type: "Accepting", status: "False", reason: "NotAccepting", message: "the Cell is being deleted" }
      : reachable.status === "True" && isMissing
        ? {
            type: "Accepting",
            status: "False",
            reason: "ApiMissing",
            message: "it does not serve the kinds of the fleet",
          }
        : { type: "Accepting", status: "True", reason: "Accepting", message: "it takes new deployments" };
  const generation = cell.metadata?.generation;
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  const conditions = mergeConditions(
    cell.status?.conditions ?? [],
    [
      { ...reachable, ...observed },
      { ...accepting, ...observed },
    ],
    host.clock.now(),
  );
  const isLost = reachable.status === "False";
  const since = isLost ? (cell.status?.since ?? toTime(know.heardMs(seen))) : undefined;
  const isSame =
    JSON.stringify([conditions, since, generation]) ===
    JSON.stringify([cell.status?.conditions, cell.status?.since, cell.status?.observedGeneration]);
  if (isSame) return undefined;
  return {
    conditions,
    ...(generation !== undefined && { observedGeneration: generation }),
    ...(since !== undefined && { since }),
  };
}

type Reach = NonNullable<ReturnType<HubParts["know"]["engaged"]>>["reach"];

function reachableOf(
  { state, cell }: CellSeen,
  problem: CellProblem | undefined,
  reach: Reach | undefined,
  wrongName: string | undefined,
): DesiredCondition {
  const no = (reason: string, message: string): DesiredCondition => ({
    type: "Reachable",
    status: "False",
    reason,
    message,
  });
  if (problem !== undefined) return no(problem.reason, problem.message);
  if (reach?.is === "no") return no(reach.cause, reach.message);
  if (state.is === "away" && state.reason === "CellTooLarge") return no(state.reason, state.message);
  if (state.is === "away" && state.reason === "CellUnheard" && wrongName !== undefined)
    return no(
      "WrongCellName",
      `Berth in it runs as ${wrongName}: start it there with --cell ${cell.metadata?.name}`,
    );
  if (state.is === "away" && state.reason === "CellUnheard") return no("NotRunning", state.message);
  return { type: "Reachable", status: "True", reason: "Heard", message: "the cell answers" };
}
