/** Chooses the cell of a deployment. Pure: a running Berth, `plan` and `explain` share it. */
import { createHash } from "node:crypto";
import type { Withdrawal } from "../../api/cell.ts";
import { type CellPlacement, freeStart, isSameTarget, targetsOf } from "../../api/placement.ts";
import type { HubReason } from "../../api/reasons.ts";
import {
  type CellSeen,
  cellWith,
  type Found,
  isDraining,
  isForgotten,
  nameOf,
  targetOf,
  uidOf,
} from "../cells/seen.ts";
import { isDeleting } from "../source.ts";

export interface ChoiceView {
  readonly city: string;
  /** Of the deployment in the project. */
  readonly sourceUid: string;
  /** Where it was. Only its epochs and ordinals count: a placement that may stay is not chosen again. */
  readonly placement: CellPlacement | undefined;
  /** Where the hub had it until another program deleted it there: see `recordOf`. */
  readonly recorded?: CellPlacement | undefined;
  /** Its status was shown, so a cell may have it. */
  readonly ranBefore: boolean;
  /** All Cells. */
  readonly cells: readonly CellSeen[];
  /** Deployments of this hub with its namespace and name, in cells that are synced. */
  readonly found: readonly Found[];
  /** All with its namespace and name. */
  readonly withdrawals: readonly Withdrawal[];
}

export interface CellVerdict {
  readonly cell: string;
  readonly reason: HubReason;
  readonly message: string;
}

export type Choice =
  | {
      readonly is: "placed";
      readonly placement: CellPlacement;
      /** A cell had it already. */
      readonly isTakeover: boolean;
      readonly verdicts: readonly CellVerdict[];
    }
  | {
      readonly is: "none";
      readonly reason: HubReason;
      readonly message: string;
      readonly verdicts: readonly CellVerdict[];
    };

export function choose(view: ChoiceView): Choice {
  const { city, sourceUid, ranBefore, cells } = view;
  const serving = cells.filter(({ cell }) => cell.spec?.city === city);
  const verdicts = serving.map((seen) => verdictOn(seen, view));
  const none = (reason: HubReason, message: string): Choice => ({ is: "none", reason, message, verdicts });
  const { recorded } = view;
  const kept = recorded !== undefined && isKept(recorded, view) ? recorded : undefined;
  const holder = holderOf(view);
  if (holder !== undefined && !(kept !== undefined && isRecorded(holder, kept, view))) {
    const { cell, origin } = holder;
    const last = Math.max(origin.epoch, lastEpoch(view));
    const taken = { cell: nameOf(cell), uid: uidOf(cell), epoch: origin.epoch, start: origin.start, last };
    return {
      is: "placed",
      isTakeover: true,
      verdicts,
      placement: { ...taken, ...lostIn(view, taken.start) },
    };
  }
  if (kept !== undefined) return { is: "placed", isTakeover: true, verdicts, placement: kept };
  const unread = serving.filter((it) => it.state.is !== "synced" && !isForgotten(it));
  if (ranBefore && unread.length > 0)
    return none("CellsNotRead", `it ran before, and cells may have it that do not answer: ${names(unread)}`);
  const start = startFor(view);
  if (start === undefined) return none("NoFreeOrdinals", NO_START);
  const best = bestOf(serving, verdicts, sourceUid);
  if (best === undefined) return none("NoMatchingLocation", whyNone(city, verdicts));
  const epoch = lastEpoch(view) + 1;
  const placed = { cell: nameOf(best), uid: uidOf(best), epoch, start, last: epoch };
  return {
    is: "placed",
    isTakeover: false,
    placement: { ...placed, ...lostIn(view, start) },
    verdicts: verdicts.map((it) => (it.cell === nameOf(best) ? verdictOfChosen(best) : it)),
  };
}

/** The same for a deployment that leaves its cell: the answer has the cell that it goes to as `next`. */
export function chooseNext(view: ChoiceView & { readonly placement: CellPlacement }): Choice {
  const { city, sourceUid, placement, cells } = view;
  const serving = cells.filter(({ cell }) => cell.spec?.city === city && cell.spec.uid !== placement.uid);
  const verdicts = serving.map((seen) => verdictOn(seen, view));
  const none = (reason: HubReason, message: string): Choice => ({ is: "none", reason, message, verdicts });
  const unread = serving.filter((it) => it.state.is !== "synced" && !isForgotten(it));
  // One of them may have a later placement, from before the hub was restored.
  if (unread.length > 0)
    return none(
      "CellsNotRead",
      `cells of its city do not answer: ${names(unread)}. Forget one that never comes back`,
    );
  const best = bestOf(serving, verdicts, sourceUid);
  if (best === undefined) return none("NoOtherCell", whyNone(city, verdicts, "other "));
  const start = startFor(view);
  if (start === undefined) return none("NoFreeOrdinals", NO_START);
  const last = lastEpoch(view) + 1;
  const next = { cell: nameOf(best), uid: uidOf(best), epoch: last, start };
  return { is: "placed", isTakeover: false, placement: { ...placement, last, next }, verdicts };
}

const NO_START = "deployments of this name that are not proven gone use all ordinals";

function bestOf(
  serving: readonly CellSeen[],
  verdicts: readonly CellVerdict[],
  sourceUid: string,
): CellSeen | undefined {
  const eligible = serving.filter((_, at) => verdicts[at]?.reason === "MoreLoaded");
  const [best] = eligible.toSorted(
    (a, b) => a.assigned - b.assigned || (rank(sourceUid, a) < rank(sourceUid, b) ? -1 : 1),
  );
  return best;
}

/** The cell has it as the project records it. A move goes on while its own cell has it too. */
function isRecorded(holder: Found, recorded: CellPlacement, view: ChoiceView): boolean {
  const at = targetOf(holder);
  if (isSameTarget(at, recorded)) return true;
  return recorded.next !== undefined && isSameTarget(at, recorded.next) && hasCurrent(recorded, view);
}

/** Its cell has it still, or does not answer. */
function hasCurrent({ uid, epoch }: CellPlacement, { cells, found }: ChoiceView): boolean {
  if (cellWith(cells, uid)?.state.is !== "synced") return true;
  return found.some(
    (it) => uidOf(it.cell) === uid && it.origin.epoch === epoch && !isDeleting(it.deployment),
  );
}

function verdictOfChosen(best: CellSeen): CellVerdict {
  const message = `it has ${best.assigned} replicas, the fewest`;
  return { cell: nameOf(best), reason: "Chosen", message };
}

/** Is it still the best that is known? Its cell need not answer. Users of the project can write it: a city stays what it is. */
function isKept({ uid, epoch }: CellPlacement, { cells, city, withdrawals, sourceUid }: ChoiceView): boolean {
  return (
    cells.some((it) => uidOf(it) === uid && it.cell.spec?.city === city && !isForgotten(it)) &&
    withdrawals.every(
      ({ spec }) => spec?.sourceUid !== sourceUid || spec.cellUid !== uid || (spec.epoch ?? epoch) < epoch,
    )
  );
}

/** The cell that has the deployment: the one with the highest epoch, then the one where it is placed. */
export function holderOf(
  view: Pick<ChoiceView, "sourceUid" | "placement" | "found" | "withdrawals">,
): Found | undefined {
  const { sourceUid, placement, found, withdrawals } = view;
  const isPlaced = ({ cell }: Found): number => (uidOf(cell) === placement?.uid ? 0 : 1);
  const [first] = found
    .filter((it) => it.origin.sourceUid === sourceUid && !isDeleting(it.deployment) && !isForgotten(it.cell))
    .filter((it) => withdrawals.every((one) => !isWithdrawnBy(one, it)))
    .toSorted(
      (a, b) =>
        b.origin.epoch - a.origin.epoch ||
        isPlaced(a) - isPlaced(b) ||
        (uidOf(a.cell) < uidOf(b.cell) ? -1 : 1),
    );
  return first;
}

export function isWithdrawnBy(
  { spec }: Withdrawal,
  { cell, origin }: Pick<Found, "cell" | "origin">,
): boolean {
  return (
    spec?.sourceUid === origin.sourceUid &&
    spec.cellUid === uidOf(cell) &&
    (spec.epoch === undefined || origin.epoch <= spec.epoch)
  );
}

function verdictOn(seen: CellSeen, { sourceUid, found, withdrawals }: ChoiceView): CellVerdict {
  const cell = nameOf(seen);
  if (isForgotten(seen)) return { cell, reason: "CellForgotten", message: "it was given up" };
  if (seen.state.is !== "synced") return { cell, reason: seen.state.reason, message: seen.state.message };
  if (isDraining(seen)) return { cell, reason: "Draining", message: "it is drained" };
  if (!seen.isAccepting || isDeleting(seen.cell))
    return { cell, reason: "NotAccepting", message: "it takes no new deployments" };
  if (!seen.hasApis)
    return { cell, reason: "ApiMissing", message: "it does not serve the kinds of the fleet" };
  if (seen.isFull)
    return {
      cell,
      reason: "CellFull",
      message: `it has ${seen.assigned} replicas, and more could not be read`,
    };
  if (withdrawals.some(({ spec }) => spec?.cellUid === uidOf(seen) && spec.sourceUid === sourceUid))
    return { cell, reason: "Withdrawing", message: "an earlier placement is being deleted from it" };
  if (found.some((it) => uidOf(it.cell) === uidOf(seen) && it.origin.sourceUid !== sourceUid))
    return { cell, reason: "NameTaken", message: "it has an earlier deployment of this name" };
  if (found.some((it) => uidOf(it.cell) === uidOf(seen) && it.origin.sourceUid === sourceUid))
    return { cell, reason: "NameTaken", message: "it has an earlier placement of the deployment" };
  return { cell, reason: "MoreLoaded", message: `it has ${seen.assigned} replicas` };
}

function lastEpoch({ placement, recorded, found, withdrawals, sourceUid }: ChoiceView): number {
  return Math.max(
    placement?.last ?? 0,
    recorded?.last ?? 0,
    ...found.filter(({ origin }) => origin.sourceUid === sourceUid).map(({ origin }) => origin.epoch),
    ...withdrawals.filter(({ spec }) => spec?.sourceUid === sourceUid).map(({ spec }) => spec?.epoch ?? 0),
  );
}

/** Instances of one name must not run in two cells, whatever source they are of. */
function startFor({ placement, recorded, found, withdrawals }: ChoiceView): number | undefined {
  if (withdrawals.some(({ spec }) => spec?.start === undefined)) return undefined;
  return freeStart([
    ...[placement, recorded].flatMap((it) => startsOf(it)),
    ...found.map(({ origin }) => origin.start),
    ...withdrawals.map(({ spec }) => spec?.start ?? 0),
  ]);
}

function startsOf(placement: CellPlacement | undefined): readonly number[] {
  return [...(placement?.lost ?? []), ...targetsOf(placement).map(({ start }) => start)];
}

/** A placement is left without a proof only when its cell is forgotten, or when another cell is ahead. @param own the start that is used now. */
function lostIn({ placement }: ChoiceView, own: number): Pick<CellPlacement, "lost"> {
  const lost = startsOf(placement).filter((it) => it !== own);
  return lost.length === 0 ? {} : { lost };
}

/** Rendezvous hashing: another cell that comes or goes changes the order of no two others. */
function rank(sourceUid: string, seen: CellSeen): string {
  return createHash("sha256")
    .update(`${sourceUid}/${uidOf(seen)}`)
    .digest("hex");
}

function names(seen: readonly CellSeen[]): string {
  return seen.map(nameOf).sort().join(", ");
}

function whyNone(city: string, verdicts: readonly CellVerdict[], other = ""): string {
  if (verdicts.length === 0) return `no ${other}cell serves city ${city}`;
  const each = verdicts.map(({ cell, message }) => `${cell}: ${message}`);
  return `no ${other}cell of city ${city} can take it: ${each.join("; ")}`;
}
