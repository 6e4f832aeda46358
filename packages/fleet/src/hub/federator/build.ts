/** The hub's objects for a deployment of a project. Metadata is built, never copied: an owner of another cluster deletes. */
import { COMPUTE_GROUP, COMPUTE_VERSION } from "../../api/group.ts";
import { finalizers, annotations as keys, labels } from "../../api/keys.ts";
import { type CellPlacement, formatPlacement } from "../../api/placement.ts";
import type { WorkloadDeployment } from "../../api/workload.ts";
import { canonicalJson } from "../../deployment/template-hash.ts";
import { mergePatchOf } from "../../workload/merge-patch.ts";

export function hubDeployment(
  source: WorkloadDeployment,
  namespace: string,
  placement: CellPlacement,
): WorkloadDeployment {
  const { name = "", uid = "" } = source.metadata ?? {};
  return {
    apiVersion: `${COMPUTE_GROUP}/${COMPUTE_VERSION}`,
    kind: "WorkloadDeployment",
    metadata: {
      name,
      namespace,
      labels: { ...hubLabels(source), [labels.cell]: placement.cell },
      annotations: {
        [keys.sourceUid]: uid,
        [keys.sourceGeneration]: String(source.metadata?.generation ?? 0),
        [keys.placement]: formatPlacement(placement),
      },
      finalizers: [finalizers.direct],
    },
    ...(source.spec && { spec: source.spec }),
  };
}

/** A merge patch of what differs in the hub; `undefined`: nothing. The placement is not the federator's to change. */
export function hubPatch(source: WorkloadDeployment, hub: WorkloadDeployment): object | undefined {
  const metadata = mergePatchOf(
    {
      labels: pick(hub.metadata?.labels, hubLabels(source)),
      annotations: pick(hub.metadata?.annotations, generationOf(source)),
    },
    { labels: hubLabels(source), annotations: generationOf(source) },
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

function generationOf({ metadata }: WorkloadDeployment): Readonly<Record<string, string>> {
  return { [keys.sourceGeneration]: String(metadata?.generation ?? 0) };
}

function pick(
  from: Readonly<Record<string, string>> = {},
  like: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(from).filter(([key]) => Object.hasOwn(like, key)));
}
