/** Decides what a cell needs for one deployment of the hub. Pure. */
import type { Finding } from "@berth/host";
import type { KubeObject } from "@berth/kube";
import { type Withdrawal, type WithdrawalSpec, withdrawalName } from "../../api/cell.ts";
import { finalizers, annotations as keys, labels } from "../../api/keys.ts";
import { originAnnotations, type Place, type Signer } from "../../api/origin.ts";
import { type CellPlacement, parsePlacement, type Target, targetsOf } from "../../api/placement.ts";
import type { HubReason } from "../../api/reasons.ts";
import type { Instance, WorkloadDeployment } from "../../api/workload.ts";
import { canonicalJson } from "../../deployment/template-hash.ts";
import { type CellSeen, cellWith, type Found, isForgotten, nameOf, uidOf } from "../../hub/cells/seen.ts";
import { namespaceFault, upstreamMarks } from "../../hub/federator/namespace.ts";
import { type Choice, holderOf, isWithdrawnBy } from "../../hub/placement/choose.ts";
import { isDeleting, type Source, sourceUidOf } from "../../hub/source.ts";
import { mergePatchOf } from "../../workload/merge-patch.ts";

export interface CarryView {
  /** Of the hub. */
  readonly deployment: WorkloadDeployment;
  /** The copies of its Instances on the hub. */
  readonly copies: readonly Instance[];
  readonly source: Source;
  /** The placement that the deployment in the project records, as text: see `recordText`. */
  readonly recorded: string | undefined;
  /** Its status was shown on the hub or in the project, so a cell may have it. */
  readonly ranBefore: boolean;
  readonly cells: readonly CellSeen[];
  /** Deployments with its namespace and name that this hub made, in cells that are synced. */
  readonly found: readonly Found[];
  /** Deployments with its namespace and name that this hub did not make, by the uids of their cells. */
  readonly foreign: ReadonlySet<string>;
  /** Its namespace on the hub, and the namespaces of that name in cells that are synced. */
  readonly namespace: KubeObject;
  readonly namespaceIn: (cellUid: string) => KubeObject | undefined;
  /** With its namespace and name. */
  readonly withdrawals: readonly Withdrawal[];
  /** Cells where an uncached read did not find it, with their Lease renewed since it was being deleted. By uid. */
  readonly proven: ReadonlySet<string>;
  /** A creation may still arrive in this cell: its answer was lost, or another process led until now. */
  readonly isLatePossible: (cellUid: string) => boolean;
  /** Asked when its cell was forgotten, and when its placement cannot be read. */
  readonly choose: () => Choice;
  readonly hub: string;
  readonly signer: Signer;
}

/** Requests are sent in the order of the fields. Empty: settled. */
export interface CarryDecision {
  /** Another placement, written to the hub's deployment. Nothing else happens before. */
  readonly place?: { readonly placement: CellPlacement; readonly reason: HubReason } | undefined;
  readonly create?:
    | {
        readonly cellUid: string;
        /** Sent first. Absent: it is there. */
        readonly namespace?: KubeObject | undefined;
        readonly deployment: WorkloadDeployment;
      }
    | undefined;
  readonly patch?: readonly { readonly found: Found; readonly body: object }[] | undefined;
  /** Bound to the uid. */
  readonly delete?: readonly Found[] | undefined;
  /** Uncached reads that are needed for a proof. */
  readonly prove?: readonly CellSeen[] | undefined;
  readonly withdraw?: readonly WithdrawalSpec[] | undefined;
  /** Copies to delete, as nothing else may do it. */
  readonly deleteCopies?: readonly Instance[] | undefined;
  /** The finalizer goes. `isProven`: no cell has it any more, or a Withdrawal stands for it. */
  readonly release?: { readonly isProven: boolean } | undefined;
  readonly findings: readonly Finding[];
}

const settled: CarryDecision = Object.freeze({ findings: [] });
const waits = (reason: HubReason, message: string): CarryDecision => ({ findings: [{ reason, message }] });

/** The first row that fits. */
export function decideCarry(view: CarryView): CarryDecision {
  const { deployment, source } = view;
  const written = deployment.metadata?.annotations?.[keys.placement];
  const placement = parsePlacement(written);
  if (isDeleting(deployment)) {
    if (!deployment.metadata?.finalizers?.includes(finalizers.direct) || source === "unknown") return settled;
    if (source !== "live") return decideEnd(view, placement);
    // Another program deleted it. The federator makes it again where it is, once it has recorded that.
    return placement === undefined || view.recorded === written ? release(view, false) : settled;
  }
  if (source === "deleting" || source === "gone") return settled;
  return source === "live" ? decideLive(view, placement) : { ...settled, patch: patches(view, placement) };
}

function decideLive(view: CarryView, placement: CellPlacement | undefined): CarryDecision {
  const { cells, foreign, deployment, withdrawals } = view;
  const sourceUid = sourceUidOf(deployment) ?? "";
  const holder = holderOf({ ...view, sourceUid, placement });
  if (placement === undefined) return place(view.choose());
  const cell = cellWith(cells, placement.uid);
  if (holder !== undefined && isLater(holder, placement, cell)) {
    const last = Math.max(placement.last, holder.origin.epoch);
    return {
      ...settled,
      place: { placement: { ...placement, ...targetOf(holder), last }, reason: "TakenOver" },
    };
  }
  if (cell !== undefined && isForgotten(cell)) return place(view.choose());
  const patch = patches(view, placement);
  if (holder !== undefined && uidOf(holder.cell) === placement.uid && holder.origin.epoch === placement.epoch)
    return { ...settled, patch };
  if (cell === undefined || cell.state.is !== "synced") return { ...settled, patch };
  const has = view.found.some((it) => uidOf(it.cell) === placement.uid);
  if (foreign.has(placement.uid))
    return { ...waits("NameTaken", `cell ${placement.cell} has another deployment of this name`), patch };
  if (has)
    return {
      ...waits("Withdrawing", `cell ${placement.cell} still has an earlier deployment of this name`),
      patch,
    };
  const target = { cell, deployment: view.deployment, origin: { hub: view.hub, sourceUid, ...placement } };
  if (withdrawals.some((it) => isWithdrawnBy(it, target)))
    return { ...waits("Withdrawing", `it is being deleted from cell ${placement.cell}`), patch };
  const unread = cells.filter(
    (it) => isOfCity(it, deployment) && it.state.is !== "synced" && !isForgotten(it),
  );
  if (view.ranBefore && unread.length > 0) {
    const message = `it ran before, and cells may have it that do not answer: ${unread.map(nameOf).join(", ")}`;
    return { ...waits("CellsNotRead", message), patch };
  }
  const create = { cellUid: placement.uid, deployment: cellDeployment(view, placement) };
  const present = view.namespaceIn(placement.uid);
  if (present === undefined)
    return { ...settled, patch, create: { ...create, namespace: cellNamespace(view) } };
  const fault = namespaceFault(present, cellNamespace(view));
  if (fault === undefined) return { ...settled, patch, create };
  return { ...waits(fault.reason, `cell ${placement.cell}: ${fault.message}`), patch };
}

/**
 * The hub follows a cell that has a later placement, or the same one in another place. A lower epoch is an older
 * placement: from a backup of the cell, or by a request that came late.
 */
function isLater({ cell, origin }: Found, placement: CellPlacement, placed: CellSeen | undefined): boolean {
  if (origin.epoch !== placement.epoch) return origin.epoch > placement.epoch;
  if (uidOf(cell) === placement.uid) return origin.start !== placement.start;
  return placed?.state.is === "synced";
}

function isOfCity({ cell }: CellSeen, { spec }: WorkloadDeployment): boolean {
  return cell.spec?.city === spec?.cityCode;
}

function place(choice: Choice): CarryDecision {
  if (choice.is === "none") return waits(choice.reason, choice.message);
  return {
    ...settled,
    place: { placement: choice.placement, reason: choice.isTakeover ? "TakenOver" : "CellForgotten" },
  };
}

function targetOf({ cell, origin }: Found): Target {
  return { cell: nameOf(cell), uid: uidOf(cell), epoch: origin.epoch, start: origin.start };
}

/** What differs in the cell that has it, and holds on older placements elsewhere. */
function patches(view: CarryView, placement: CellPlacement | undefined): CarryDecision["patch"] {
  const sourceUid = sourceUidOf(view.deployment);
  const all = view.found
    .filter((it) => it.origin.sourceUid === sourceUid && !isDeleting(it.deployment))
    .flatMap((found) => {
      const isTarget = targetsOf(placement).some(
        ({ uid, epoch }) => uid === uidOf(found.cell) && epoch === found.origin.epoch,
      );
      const isOlder = placement !== undefined && found.origin.epoch <= placement.epoch;
      const body = isTarget ? differences(view, found) : isOlder ? heldBack(found) : undefined;
      return body === undefined ? [] : [{ found, body }];
    });
  return all.length === 0 ? undefined : all;
}

function heldBack({ deployment }: Found): object | undefined {
  if (deployment.metadata?.annotations?.[keys.hold] !== undefined) return undefined;
  return { metadata: { annotations: { [keys.hold]: "Superseded" } } };
}

function differences({ deployment: hub }: CarryView, { deployment: present }: Found): object | undefined {
  const wanted = { labels: labelsOf(hub), annotations: carried(hub) };
  const has = {
    labels: pick(present.metadata?.labels, wanted.labels),
    annotations: pick(present.metadata?.annotations, { ...wanted.annotations, [keys.hold]: "" }),
  };
  const metadata = mergePatchOf(has, wanted);
  const isSame = canonicalJson(present.spec ?? {}) === canonicalJson(hub.spec ?? {});
  const spec = isSame ? undefined : mergePatchOf(present.spec, hub.spec);
  if (metadata === undefined && spec === undefined) return undefined;
  return { ...(metadata !== undefined && { metadata }), ...(spec !== undefined && { spec }) };
}

function cellNamespace({ namespace }: CarryView): KubeObject {
  const { name = "" } = namespace.metadata ?? {};
  return { apiVersion: "v1", kind: "Namespace", metadata: { name, ...upstreamMarks(namespace) } };
}

/** Start and epoch are written here only: later the cell's are taken. */
function cellDeployment({ deployment, hub, signer }: CarryView, target: Target): WorkloadDeployment {
  const { name = "", namespace = "" } = deployment.metadata ?? {};
  const origin = { hub, sourceUid: sourceUidOf(deployment) ?? "", epoch: target.epoch, start: target.start };
  const where: Place = { cellUid: target.uid, namespace, name };
  const { apiVersion, kind, spec } = deployment;
  return {
    ...(apiVersion !== undefined && { apiVersion }),
    ...(kind !== undefined && { kind }),
    metadata: {
      name,
      namespace,
      labels: labelsOf(deployment),
      annotations: { ...carried(deployment), ...originAnnotations(origin, where, signer) },
    },
    ...(spec && { spec }),
  };
}

function labelsOf({ metadata }: WorkloadDeployment): Readonly<Record<string, string>> {
  return pick(metadata?.labels, {
    [labels.city]: "",
    [labels.upstreamNamespace]: "",
    [labels.workloadUid]: "",
  });
}

function carried({ metadata }: WorkloadDeployment): Readonly<Record<string, string>> {
  return pick(metadata?.annotations, { [keys.sourceGeneration]: "" });
}

function pick(
  from: Readonly<Record<string, string>> = {},
  like: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(from).filter(([key]) => Object.hasOwn(like, key)));
}

function release({ copies }: CarryView, isProven: boolean): CarryDecision {
  const deleteCopies = copies.filter((it) => !isDeleting(it));
  return copies.length === 0
    ? { ...settled, release: { isProven } }
    : { ...settled, ...(deleteCopies.length > 0 && { deleteCopies }) };
}

/** Its source is being deleted or gone: nothing of it may stay in any cell. */
function decideEnd(view: CarryView, placement: CellPlacement | undefined): CarryDecision {
  const { deployment, cells, found, proven, withdrawals } = view;
  const { name = "", namespace = "" } = deployment.metadata ?? {};
  const sourceUid = sourceUidOf(deployment) ?? "";
  const own = found.filter((it) => it.origin.sourceUid === sourceUid);
  const present = own.filter((it) => !isDeleting(it.deployment));
  if (present.length > 0) return { ...settled, delete: present };
  // Without a placement that can be read, any cell of its city may have it.
  const places: readonly (Target | Omit<Target, "epoch" | "start">)[] =
    placement === undefined
      ? cells.filter((it) => isOfCity(it, deployment)).map((it) => ({ cell: nameOf(it), uid: uidOf(it) }))
      : targetsOf(placement);
  const prove: CellSeen[] = [];
  const withdraw: WithdrawalSpec[] = [];
  for (const target of places) {
    const cell = cellWith(cells, target.uid);
    if (cell !== undefined && isForgotten(cell)) continue;
    const spec = {
      cell: target.cell,
      cellUid: target.uid,
      namespace,
      name,
      sourceUid,
      ...("epoch" in target && { epoch: target.epoch, start: target.start }),
    };
    if (withdrawals.some((it) => it.metadata?.name === withdrawalName(spec))) continue;
    if (cell?.state.is !== "synced" || view.isLatePossible(target.uid)) withdraw.push(spec);
    else if (own.some((it) => uidOf(it.cell) === target.uid)) return settled;
    else if (!proven.has(target.uid)) prove.push(cell);
  }
  if (prove.length > 0 || withdraw.length > 0)
    return { ...settled, ...(prove.length > 0 && { prove }), ...(withdraw.length > 0 && { withdraw }) };
  return release(view, true);
}
