/** The hub's objects for a deployment of a project. Metadata is built, never copied: an owner of another cluster deletes. */
import { pick } from "@berth/host";
import { COMPUTE_GROUP, COMPUTE_VERSION } from "../../api/group.ts";
import { finalizers, annotations as keys, labels } from "../../api/keys.ts";
import { type CellPlacement, formatPlacement } from "../../api/placement.ts";
import type { WorkloadDeployment } from "../../api/workload.ts";
import { canonicalJson } from "../../deployment/template-hash.ts";
import { mergePatchOf } from "../../workload/merge-patch.ts";

/** @param placement absent: Karmada chooses the cell, and deletes in it what is deleted here. */
export function hubDeployment(
  source: WorkloadDeployment,
  namespace: string,
  placement: CellPlacement | undefined,
): WorkloadDeployment {
  const { name = "" } = source.metadata ?? {};
  return {
    apiVersion: `${COMPUTE_GROUP}/${COMPUTE_VERSION}`,
    kind: "WorkloadDeployment",
    metadata: {
      name,
      namespace,
      labels: { ...hubLabels(source), ...(placement && { [labels.cell]: placement.cell }) },
      annotations: {
        ...marksOf(source),
        ...(placement && { [keys.placement]: formatPlacement(placement) }),
      },
      ...(placement && { finalizers: [finalizers.direct] }),
    },
    ...(source.spec && { spec: source.spec }),
  };
}

/**
 * A merge patch of the fields that differ on the hub; `undefined` when none does. It never touches the placement, which
 * the placement reconciler owns.
 *
 * @param pushed another value has Karmada bring it to its cell again. Absent: it stays.
 */
export function hubPatch(
  source: WorkloadDeployment,
  hub: WorkloadDeployment,
  pushed?: string,
): object | undefined {
  const labelsOfHub = hubLabels(source);
  const annotations = { ...marksOf(source), ...(pushed !== undefined && { [keys.pushed]: pushed }) };
  const metadata = mergePatchOf(
    {
      labels: pick(hub.metadata?.labels ?? {}, Object.keys(labelsOfHub)),
      annotations: pick(hub.metadata?.annotations ?? {}, Object.keys(annotations)),
    },
    { labels: labelsOfHub, annotations },
  );
  const isSame = canonicalJson(hub.spec ?? {}) === canonicalJson(source.spec ?? {});
  const spec = isSame ? undefined : mergePatchOf(hub.spec, source.spec);
  if (metadata === undefined && spec === undefined) return undefined;
  return { ...(metadata !== undefined && { metadata }), ...(spec !== undefined && { spec }) };
}

function hubLabels({ metadata, spec }: WorkloadDeployment): Readonly<Record<string, string>> {
  return {
    [labels.city]: spec?.cityCode ?? "",
    [labels.upstreamNamespace]: metadata?.namespace ?? "",
    [labels.workloadUid]: spec?.workloadRef.uid ?? "",
  };
}

function marksOf({ metadata }: WorkloadDeployment): Readonly<Record<string, string>> {
  return {
    [keys.sourceUid]: metadata?.uid ?? "",
    [keys.sourceGeneration]: String(metadata?.generation ?? 0),
  };
}
