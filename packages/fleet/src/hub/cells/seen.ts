/** A Cell, and what its cluster showed last. */
import { type Cell, isSameOrphan } from "../../api/cell.ts";
import { annotations as keys } from "../../api/keys.ts";
import { type Origin, originOf, type Signer } from "../../api/origin.ts";
import { parsePlacement, type Target } from "../../api/placement.ts";
import type { WorkloadDeployment } from "../../api/workload.ts";
import { boundedCount } from "../../deployment/build.ts";
import { canonicalJson } from "../../deployment/template-hash.ts";
import { isDeleting } from "../source.ts";

export type CellState =
  /** All has been read since the connection was made, and the cluster is the right one. Absence means absence. */
  | { readonly is: "synced" }
  /** It does not answer, is another cluster, or is not read yet. */
  | {
      readonly is: "away";
      readonly reason: "CellUnreachable" | "CellUnheard" | "CellTooLarge";
      readonly message: string;
    };

export interface CellSeen {
  readonly cell: Cell;
  readonly state: CellState;
  /** It serves the kinds of the fleet. */
  readonly hasApis: boolean;
  /** The operator lets it take new deployments. */
  readonly isAccepting: boolean;
  /** Sum of the replicas of the deployments that are placed there. */
  readonly assigned: number;
  /** One more could make it too large to be read. */
  readonly isFull: boolean;
}

/** What is read of each kind of object in a cell, at most. Bytes of JSON. A cell with more is `CellTooLarge`. */
export const CELL_LIMIT = { objects: 20_000, bytes: 64 * 1024 * 1024 } as const;

/** Is the cell full with these deployments? They may take half of the limit: so only the cell itself goes beyond it. */
export function isFullWith(placed: readonly WorkloadDeployment[]): boolean {
  const sum = (of: (it: WorkloadDeployment) => number): number => placed.reduce((all, it) => all + of(it), 0);
  return (
    sum(boundedCount) >= CELL_LIMIT.objects / 2 ||
    sum(({ spec }) => canonicalJson(spec ?? {}).length) >= CELL_LIMIT.bytes / 2
  );
}

/** Replicas of those deployments that stay in the cell, or come to it. */
export function assignedTo(cellUid: string | undefined, placed: readonly WorkloadDeployment[]): number {
  return placed
    .filter(
      ({ metadata }) => parsePlacement(metadata?.annotations?.[keys.placement])?.leaving?.uid !== cellUid,
    )
    .reduce((sum, { spec }) => sum + (spec?.scaleSettings.minReplicas ?? 0), 0);
}

export const uidOf = ({ cell }: CellSeen): string => cell.spec?.uid ?? "";
export const nameOf = ({ cell }: CellSeen): string => cell.metadata?.name ?? "";
export const isDraining = ({ cell }: CellSeen): boolean => cell.spec?.drain === true;
export const isForgotten = ({ cell }: CellSeen): boolean => cell.spec?.forgotten === true;

/** A deployment of this hub that was found in a cell. */
export interface Found {
  readonly cell: CellSeen;
  readonly deployment: WorkloadDeployment;
  readonly origin: Origin;
}

export function targetOf({ cell, origin: { epoch, start } }: Found): Target {
  return { cell: nameOf(cell), uid: uidOf(cell), epoch, start };
}

/** `undefined`: this hub did not make it, or the cell says so only. */
export function foundIn(
  cell: CellSeen,
  deployment: WorkloadDeployment,
  { hub, signer }: { readonly hub: string; readonly signer: Signer },
): Found | undefined {
  const seen = originOf(deployment, uidOf(cell), signer);
  return seen.is === "signed" && seen.origin.hub === hub
    ? { cell, deployment, origin: seen.origin }
    : undefined;
}

/**
 * With the origin that an orphan gets when an operator adopts it. Where the deployment is placed in another cell, it stays an
 * orphan: that one runs already.
 *
 * @param onHub @param wished those of its name, on the hub and in the project.
 */
export function adopted(
  found: Found,
  onHub: WorkloadDeployment | undefined,
  wished: WorkloadDeployment | undefined,
): Found {
  const { cell, deployment, origin } = found;
  const { namespace = "", name = "" } = deployment.metadata ?? {};
  const sourceUid = wished?.metadata?.uid;
  const isListed = cell.cell.spec?.adopt?.some((it) => isSameOrphan(it, { ...origin, namespace, name }));
  if (!isListed || wished === undefined || sourceUid === undefined || isDeleting(wished)) return found;
  const placement = parsePlacement(onHub?.metadata?.annotations?.[keys.placement]);
  if (placement !== undefined && placement.uid !== uidOf(cell)) return found;
  const epoch = Math.max(origin.epoch, placement?.epoch ?? 0);
  return { ...found, origin: { ...origin, sourceUid, epoch } };
}

/**
 * The spec of a deployment of the hub as a cell can have it. `workloadRef` never changes there, so one that was adopted names
 * the Workload that it was made for.
 */
export function specIn(inCell: WorkloadDeployment, onHub: WorkloadDeployment): WorkloadDeployment["spec"] {
  const { workloadRef } = inCell.spec ?? {};
  return onHub.spec && workloadRef ? { ...onHub.spec, workloadRef } : onHub.spec;
}

/** Cells without a Cell object count as ones that do not answer. */
export function cellWith(cells: readonly CellSeen[], uid: string): CellSeen | undefined {
  return cells.find((it) => uidOf(it) === uid);
}

/** What decides whether the finalizer of a Cell that is being deleted goes. */
export interface CellEndView {
  readonly seen: CellSeen;
  /** A placement or a Withdrawal names it. */
  readonly isNamed: boolean;
  /** A deployment of this hub was read there. */
  readonly hasDeployments: boolean;
}

/** Only a person frees a cell that may still run something: see `forgotten`. */
export function mayEnd({ seen, isNamed, hasDeployments }: CellEndView): boolean {
  // Without its Cell, what is placed there would wait for ever: nothing says any more that the cell was given up.
  if (!isDeleting(seen.cell) || isNamed) return false;
  return isForgotten(seen) || (seen.state.is === "synced" && !hasDeployments);
}
