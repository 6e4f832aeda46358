/** The status and the end of Cells. Its keys are Cells. */
import { isDeepStrictEqual } from "node:util";
import {
  type DesiredCondition,
  earliest,
  findCondition,
  mergeConditions,
  type ObjectKey,
  type Reconcile,
  toTime,
  withoutConditions,
} from "@berth/runtime";
import { type CellStatus, cells } from "../../api/cell.ts";
import { finalizers, annotations as keys } from "../../api/keys.ts";
import { drainedCondition } from "../../hub/cells/drain.ts";
import { type CellSeen, isDraining, isForgotten, mayEnd, nameOf, uidOf } from "../../hub/cells/seen.ts";
import { isDeleting } from "../../hub/source.ts";
import { finalizersTo, statusTo } from "../intents.ts";
import type { CellMembers, CellProblem } from "./cell-members.ts";
import { type Place, placeOf } from "./knowledge.ts";
import { Pace } from "./pace.ts";
import type { HubParts } from "./parts.ts";
import { hubBy } from "./planes.ts";
import { Sender } from "./sender.ts";

/** Of one Cell: a drain of many deployments is told once a second. */
const STATUS_PACE = { everyMs: 1_000, burst: 3 };

export function cellStatuses(parts: HubParts, members: CellMembers): Reconcile<ObjectKey> {
  const { host, planes, know, strays } = parts;
  const sender = new Sender({ host, set: planes.own.set, resource: cells, action: "WatchCell" });
  const pace = new Pace(host.clock, STATUS_PACE);
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
    const expiresMs = members.expiresMsOf(key.name);
    const next = { recheckAfterMs: untilNews(expiresMs, host.clock.now()) };
    const credential = credentialCondition(key.name, expiresMs, host.clock.now());
    const status = statusOf(parts, seen, {
      problem: members.problemOf(key.name),
      credential,
      orphans: strays.look(seen),
    });
    if (status === undefined) return next;
    const { reason = "", message = "", status: is } = findCondition(status.conditions, "Reachable") ?? {};
    const isNews = findCondition(cell.status?.conditions, "Reachable")?.reason !== reason;
    // How many deployments are left changes often. Whether it is drained, and accepts any, is told at once.
    const isSame = ["Reachable", "Accepting", "Drained"].every(
      (type) =>
        findCondition(cell.status?.conditions, type)?.reason ===
        findCondition(status.conditions, type)?.reason,
    );
    const waitMs = isSame ? pace.take(key.name) : 0;
    if (waitMs > 0) return { recheckAfterMs: waitMs };
    const { recheckAfterMs } = await sender.send(sending, [
      {
        ...statusTo(status, reason, message, cell.status),
        ...(isNews && { announce: is === "True" ? ("Normal" as const) : ("Warning" as const) }),
      },
    ]);
    return { recheckAfterMs: earliest(recheckAfterMs, next.recheckAfterMs) };
  };
}

/** Before its end a credential is told of, ms. */
const EXPIRING_MS = 7 * 86_400_000;
/** A timer takes no more than 24 days, ms. */
const LONGEST_MS = 86_400_000;

/** Until the condition of the credential changes. */
function untilNews(expiresMs: number | undefined, nowMs: number): number | undefined {
  const next = [expiresMs, expiresMs && expiresMs - EXPIRING_MS].filter(
    (it) => it !== undefined && it > nowMs,
  );
  return next.length === 0 ? undefined : Math.min(...next.map((it) => (it ?? 0) - nowMs), LONGEST_MS);
}

const CREDENTIAL = "CredentialExpiring";

function credentialCondition(
  cell: string,
  expiresMs: number | undefined,
  nowMs: number,
): DesiredCondition | undefined {
  if (expiresMs === undefined || expiresMs - nowMs > EXPIRING_MS) return undefined;
  const isOver = expiresMs <= nowMs;
  return {
    type: CREDENTIAL,
    status: "True",
    reason: isOver ? "CredentialExpired" : "CredentialExpires",
    message: `its credential ${isOver ? "ended" : "ends"} at ${toTime(expiresMs)}: \`berth cell rotate ${cell} --kubeconfig FILE\` replaces it`,
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
function statusOf(
  parts: HubParts,
  seen: CellSeen,
  {
    problem,
    credential,
    orphans,
  }: {
    readonly problem: CellProblem | undefined;
    readonly credential: DesiredCondition | undefined;
    readonly orphans: CellStatus["orphans"];
  },
): CellStatus | undefined {
  const { host, know, planes } = parts;
  const { cell } = seen;
  const engaged = know.engaged(seen);
  if (problem === undefined && engaged === undefined) return undefined;
  const wrongName = know.wrongNameIn(seen);
  const reachable = reachableOf(seen, problem, engaged?.reach, wrongName);
  const name = cell.metadata?.name as ObjectKey["cluster"];
  const isMissing = planes.views.cell.deployments.state(name) === "absent";
  const accepting = acceptingOf(seen, reachable.status === "True" && isMissing);
  const generation = cell.metadata?.generation;
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  // Before the hub is read it seems to have placed nothing there: what was said stays.
  const isRead = know.hubUnread() === undefined;
  const drained = isRead && isDraining(seen) ? [drainedOf(parts, seen)] : [];
  const conditions = mergeConditions(
    withoutConditions(cell.status?.conditions, [
      ...(credential === undefined ? [CREDENTIAL] : []),
      ...(isRead && drained.length === 0 ? ["Drained"] : []),
    ]),
    [reachable, accepting, ...drained, ...(credential ? [credential] : [])].map((it) =>
      Object.assign({}, it, observed),
    ),
    host.clock.now(),
  );
  const isLost = reachable.status === "False";
  const since = isLost ? (cell.status?.since ?? toTime(know.heardMs(seen))) : undefined;
  const status = {
    conditions,
    ...(generation !== undefined && { observedGeneration: generation }),
    ...(since !== undefined && { since }),
    ...(orphans && { orphans }),
  };
  return isDeepStrictEqual(status, cell.status) ? undefined : status;
}

function drainedOf({ know, planes: { own, views } }: HubParts, seen: CellSeen): DesiredCondition {
  const [uid, cluster] = [uidOf(seen), nameOf(seen) as ObjectKey["cluster"]];
  const isThere = (place: Place): boolean => views.cell.deployments.get({ cluster, ...place }) !== undefined;
  return drainedCondition({
    uid,
    placed: know.placedIn(uid),
    withdrawn: views.withdrawals
      .byIndex(hubBy.cellUid, uid, own.name)
      .filter(({ spec }) => spec !== undefined && isThere({ namespace: spec.namespace, name: spec.name }))
      .length,
    isThere: (it) => isThere(placeOf(it)),
  });
}

function acceptingOf(seen: CellSeen, isApiMissing: boolean): DesiredCondition {
  const no = (reason: string, message: string): DesiredCondition => ({
    type: "Accepting",
    status: "False",
    reason,
    message,
  });
  if (isForgotten(seen)) return no("CellForgotten", "it was given up");
  if (isDeleting(seen.cell)) return no("NotAccepting", "the Cell is being deleted");
  if (isDraining(seen)) return no("Draining", "its deployments move to other cells of the city");
  if (isApiMissing) return no("ApiMissing", "it does not serve the kinds of the fleet");
  return { type: "Accepting", status: "True", reason: "Accepting", message: "it takes new deployments" };
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
