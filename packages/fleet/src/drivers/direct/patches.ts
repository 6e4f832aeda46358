/** What differs in cells that have a deployment of the hub. Pure. */
import { annotations as keys, labels } from "../../api/keys.ts";
import { originAnnotations, type Signer } from "../../api/origin.ts";
import { type CellPlacement, isSameTarget } from "../../api/placement.ts";
import type { WorkloadDeployment } from "../../api/workload.ts";
import { sourceGeneration } from "../../deployment/build.ts";
import { canonicalJson } from "../../deployment/template-hash.ts";
import { type Found, specIn, targetOf, uidOf } from "../../hub/cells/seen.ts";
import { isDeleting, sourceUidOf } from "../../hub/source.ts";
import { mergePatchOf } from "../../workload/merge-patch.ts";

export interface PatchView {
  /** Of the hub. */
  readonly deployment: WorkloadDeployment;
  /** Of its source in the project. `undefined`: that is not live, or not known. */
  readonly wantedGeneration: number | undefined;
  /** The generation that an uncached read of the project has shown last. The view of it may be behind. */
  readonly confirmedGeneration: number | undefined;
  /** Deployments with its namespace and name that this hub made, in cells that are synced. */
  readonly found: readonly Found[];
  readonly signer: Signer;
}

/** A merge patch. */
export interface CellPatch {
  readonly found: Found;
  readonly body: object;
}

/** What differs in the cell that has it, and holds on older placements elsewhere. */
export function patchesOf(
  view: PatchView,
  placement: CellPlacement | undefined,
): readonly CellPatch[] | undefined {
  const sourceUid = sourceUidOf(view.deployment);
  const all = view.found
    .filter((it) => it.origin.sourceUid === sourceUid && !isDeleting(it.deployment))
    .flatMap((found) => {
      const body = placement && patchOf(view, found, placement);
      return body === undefined ? [] : [{ found, body }];
    });
  return all.length === 0 ? undefined : all;
}

function patchOf(view: PatchView, found: Found, placement: CellPlacement): object | undefined {
  const at = targetOf(found);
  const { next, leaving, last } = placement;
  if (leaving !== undefined && isSameTarget(at, leaving)) return undefined;
  const isPlaced = [placement, next].some((it) => it !== undefined && isSameTarget(at, it));
  if (!isPlaced) return at.epoch <= last ? heldBack(found) : undefined;
  if (isBehind(view, found)) return undefined;
  return next !== undefined && isSameTarget(at, placement) ? growth(view, found) : differences(view, found);
}

/** What runs in a cell that is drained stays as it is until it runs elsewhere. Only more of it may be wanted. */
function growth({ deployment: hub }: PatchView, { deployment: present }: Found): object | undefined {
  const minReplicas = hub.spec?.scaleSettings.minReplicas ?? 0;
  if (minReplicas <= (present.spec?.scaleSettings.minReplicas ?? 0)) return undefined;
  return { spec: { scaleSettings: { minReplicas } } };
}

function heldBack({ deployment }: Found): object | undefined {
  if (deployment.metadata?.annotations?.[keys.hold] !== undefined) return undefined;
  return { metadata: { annotations: { [keys.hold]: "Superseded" } } };
}

/**
 * The hub was restored from a backup: the cell keeps what is newer until the hub has what the project wants now. The view of
 * the project may be as old as the hub. So an older generation is brought only once an uncached read has shown it.
 */
function isBehind(view: PatchView, { deployment }: Found): boolean {
  const generation = sourceGeneration(view.deployment);
  const isWanted = generation === view.wantedGeneration && generation === view.confirmedGeneration;
  return !isWanted && (sourceGeneration(deployment) ?? 0) > (generation ?? 0);
}

/** A cell has a later generation than hub and project seem to want: only an uncached read of the project tells which holds. */
export function isDoubtful(view: PatchView): boolean {
  const { deployment: hub, wantedGeneration, found } = view;
  return sourceGeneration(hub) === wantedGeneration && found.some((it) => isBehind(view, it));
}

function differences(view: PatchView, found: Found): object | undefined {
  const { deployment: hub } = view;
  const { deployment: present } = found;
  const wanted = { labels: labelsOf(hub), annotations: { ...carried(hub), ...newOrigin(view, found) } };
  const has = {
    labels: pick(present.metadata?.labels, wanted.labels),
    annotations: pick(present.metadata?.annotations, { ...wanted.annotations, [keys.hold]: "" }),
  };
  const metadata = mergePatchOf(has, wanted);
  const wantedSpec = specIn(present, hub);
  const isSame = canonicalJson(present.spec ?? {}) === canonicalJson(wantedSpec ?? {});
  const spec = isSame ? undefined : mergePatchOf(present.spec, wantedSpec);
  if (metadata === undefined && spec === undefined) return undefined;
  return { ...(metadata !== undefined && { metadata }), ...(spec !== undefined && { spec }) };
}

/** Of one that is adopted. Of all others the signature is right already. */
function newOrigin({ deployment: hub, signer }: PatchView, { cell, deployment, origin }: Found): object {
  const { namespace = "", name = "" } = hub.metadata ?? {};
  const { [keys.sourceUid]: sourceUid, [keys.epoch]: epoch } = deployment.metadata?.annotations ?? {};
  if (sourceUid === origin.sourceUid && epoch === String(origin.epoch)) return {};
  return originAnnotations(origin, { cellUid: uidOf(cell), namespace, name }, signer);
}

export function labelsOf({ metadata }: WorkloadDeployment): Readonly<Record<string, string>> {
  return pick(metadata?.labels, {
    [labels.city]: "",
    [labels.upstreamNamespace]: "",
    [labels.workloadUid]: "",
  });
}

export function carried({ metadata }: WorkloadDeployment): Readonly<Record<string, string>> {
  return pick(metadata?.annotations, { [keys.sourceGeneration]: "" });
}

function pick(
  from: Readonly<Record<string, string>> = {},
  like: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(from).filter(([key]) => Object.hasOwn(like, key)));
}
