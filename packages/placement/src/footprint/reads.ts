/** What footprints read: the pods that they select, and what decides about these. */
import {
  type Concerns,
  type FieldMask,
  keepFields,
  namespacesRead,
  type Reads,
  type Scoped,
  type Views,
} from "@berth/host";
import {
  type CollectionScope,
  type DaemonSet,
  type Namespace,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type Pod,
  pathOf,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
} from "@berth/kube";
import type { Informer } from "@berth/runtime";
import { daemonSetsRead, movesPods } from "../node/daemonsets.ts";
import { ownValue } from "../node/mark.ts";
import { nodeOf, nodesOfChange } from "../node/pod-nodes.ts";
import { isEmptySelector, selectorText } from "../node/selector.ts";
import { isAgentChecked } from "./agent/check.ts";
import { FOOTPRINT, type Footprint, type NeedingPods } from "./footprint.ts";
import type { PodsAmong } from "./hold/held-pods.ts";
import { claimOf } from "./needs.ts";

interface Objects {
  readonly daemonSets: DaemonSet;
  readonly namespaces: Namespace;
  readonly claims: PersistentVolumeClaim;
  readonly volumes: PersistentVolume;
  readonly pods: Pod;
}
export type FootprintViews = Views<Objects, readonly Footprint[]>;

export const needsVolumes = ({ csiDrivers }: NeedingPods): boolean => csiDrivers.length > 0;
export const needsNamespaces = ({ namespaceSelector }: NeedingPods): boolean =>
  !isEmptySelector(namespaceSelector);
const haveAny =
  (needs: (workload: NeedingPods) => boolean) =>
  (footprints: readonly Footprint[]): boolean =>
    footprints.some(({ workloads }) => workloads.some(needs));

/** Fields of each pod that every footprint needs: labels, owners, node, and whether the pod ends. */
const ALWAYS: FieldMask = [
  "metadata.labels",
  "metadata.deletionTimestamp",
  "metadata.ownerReferences",
  "spec.nodeName",
  "status.phase",
];
const AMOUNTS: FieldMask = ["spec", "spec.containers[]", "spec.initContainers[]"].flatMap((of) => [
  `${of}.resources.requests`,
  `${of}.resources.limits`,
]);
const VOLUMES: FieldMask = ["name", "csi.driver", "persistentVolumeClaim.claimName", "ephemeral"].map(
  (field) => `spec.volumes[].${field}`,
);
const UID_LENGTH = 36;

const podIndexes: Scoped<Pod>["indexes"] = {
  node: nodeOf,
  namespace: ({ metadata }) => [metadata?.namespace ?? ""],
  claim({ metadata, spec }) {
    const { namespace = "", name = "" } = metadata ?? {};
    const claims = (spec?.volumes ?? []).map((volume) => claimOf(volume, name));
    return claims.flatMap((claim) => (claim === undefined ? [] : [`${namespace}/${claim}`]));
  },
  "labelled uid": ({ metadata }) =>
    Object.values(metadata?.labels ?? {}).filter(({ length }) => length === UID_LENGTH),
};

const consequence = "which nodes need agents is unknown";

/** Pods come last, so that Berth asks for all related data before it decides about them. */
export const footprintReads: Reads<Objects, readonly Footprint[]> = {
  daemonSets: daemonSetsRead(FOOTPRINT, (footprints) => footprints.some(isAgentChecked)),
  namespaces: namespacesRead({ name: "footprint-namespaces", consequence }, haveAny(needsNamespaces)),
  claims: {
    name: "footprint-claims",
    resource: persistentVolumeClaims,
    consequence,
    wanted: (footprints) =>
      haveAny(needsVolumes)(footprints)
        ? [{ project: keepFields(["spec.volumeName"]), indexes: { volume: volumeOf } }]
        : [],
  },
  volumes: {
    name: "footprint-volumes",
    resource: persistentVolumes,
    consequence,
    wanted: (footprints) =>
      haveAny(needsVolumes)(footprints)
        ? [{ project: keepFields(["spec.csi.driver", "metadata.annotations"]) }]
        : [],
  },
  /**
   * One scope for each distinct selection of a workload. The API server filters by its label selector. It also omits pods
   * of ignored phases, and pods without a node, unless the footprint holds owners. Berth keeps amounts and volumes while a
   * workload asks for them.
   */
  pods: {
    name: "footprint-pods",
    resource: pods,
    consequence,
    wanted(footprints) {
      const keeps = [
        ...ALWAYS,
        ...(haveAny(({ requests }) => requests.length > 0)(footprints) ? AMOUNTS : []),
        ...(haveAny(needsVolumes)(footprints) ? VOLUMES : []),
      ];
      const shared = { keeps, project: keepFields<Pod>(keeps), indexes: podIndexes };
      return footprints.flatMap(scopesOf).map((scope) => Object.assign({ scope }, shared));
    },
  },
};

/** What the API server can select for the workloads of the footprint. */
function scopesOf({ hold, workloads }: Footprint): readonly CollectionScope[] {
  return workloads.map(({ podSelector, ignorePhases }) => {
    const labelSelector = selectorText(podSelector);
    const fields = [...ignorePhases].map((phase) => `status.phase!=${phase}`);
    if (hold === undefined) fields.push("spec.nodeName!=");
    const fieldSelector = fields.sort().join(",");
    return { ...(labelSelector && { labelSelector }), ...(fieldSelector && { fieldSelector }) };
  });
}

function volumeOf({ spec }: PersistentVolumeClaim): readonly string[] {
  return spec?.volumeName ? [spec.volumeName] : [];
}

/** The nodes to decide about again. */
export const footprintConcerns: Concerns<Objects, string> = {
  daemonSets: (change) => (movesPods(change) ? "all" : []),
  pods: nodesOfChange,
  namespaces: ({ object }, views) => nodesOf(views.pods.byIndex("namespace", object.metadata?.name ?? "")),
  claims: ({ object }, views) => nodesOf(views.pods.byIndex("claim", pathOf(object.metadata))),
  volumes: ({ object }, views) =>
    nodesOf(
      views.claims
        .byIndex("volume", object.metadata?.name ?? "")
        .flatMap(({ metadata }) => views.pods.byIndex("claim", pathOf(metadata))),
    ),
};

const nodesOf = (found: readonly Pod[]): ReadonlySet<string> => new Set(found.flatMap(nodeOf));

/** Pods of the footprint, each once. `undefined`: not known yet, or the footprint is not wanted. */
export function podsIn(
  view: FootprintViews["pods"],
  footprint: Footprint,
  { node, namespace, labelledUid }: PodsAmong & { readonly node?: string } = {},
): readonly Pod[] | undefined {
  const [index, value] =
    labelledUid !== undefined
      ? ["labelled uid", labelledUid]
      : node !== undefined
        ? ["node", node]
        : ["namespace", namespace];
  const read = (informer: Informer<Pod>): readonly Pod[] =>
    value === undefined ? [...informer.list()] : informer.byIndex(index, value);
  const informers = new Set<Informer<Pod>>();
  for (const scope of scopesOf(footprint)) {
    const informer = view.at(scope);
    if (informer === undefined) return undefined;
    informers.add(informer);
  }
  const [only] = informers;
  if (only !== undefined && informers.size === 1) return read(only);
  const found = [...informers].flatMap(read);
  return [...new Map(found.map((pod) => [pod.metadata?.uid ?? "", pod])).values()];
}

/**
 * Annotation with the driver of a volume whose plugin was once part of Kubernetes and is now served by CSI
 * (`AnnMigratedTo`, k8s.io/component-helpers/storage/volume).
 */
const MIGRATED_TO = "pv.kubernetes.io/migrated-to";

/** `null`: no such claim, volume or driver. `undefined`: not known yet. */
export function driverIn(
  { claims, volumes }: Pick<FootprintViews, "claims" | "volumes">,
  namespace: string,
  claim: string,
): string | null | undefined {
  if (!claims.synced || !volumes.synced) return undefined;
  const name = claims.find(claim, namespace)?.spec?.volumeName ?? "";
  const volume = name === "" ? undefined : volumes.find(name);
  return volume?.spec?.csi?.driver ?? ownValue(volume?.metadata?.annotations, MIGRATED_TO) ?? null;
}
