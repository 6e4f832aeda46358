import { type FieldMask, InformerSet, keepFields, type WantedInformer } from "@berth/host";
import { type Pod, pods } from "@berth/kube";
import type { Change, Component, Running } from "@berth/runtime";
import { nodeOf, nodesOfChange } from "../node/pod-nodes.ts";
import { selectorText } from "../node/selector.ts";
import type { Footprint, NeedingPods } from "./footprint.ts";
import type { FootprintObservations, Watching } from "./footprint-observations.ts";
import type { PodsAmong } from "./hold/held-pods.ts";
import { claimOf } from "./needs.ts";

export interface FootprintPodsOptions extends Watching {
  /** Data about pods on this node has changed. Must not throw. */
  readonly onChange: (node: string) => void;
  /** Each change in the kept fields of a pod, also of a pod without a node. Must not throw. */
  readonly onPod?: (change: Change<Pod>) => void;
  /** Berth has read the pods of a workload: check every node. Must not throw. */
  readonly onSynced: () => void;
}

const BY_NODE = "node";
const BY_NAMESPACE = "namespace";
const BY_CLAIM = "claim";
const BY_LABELLED_UID = "labelled uid";

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

/**
 * Watches the pods that footprints select, and keeps only the fields that decide. One informer runs for each distinct
 * selection, while a workload asks for it.
 *
 * The API server filters by the label selector of the workload, and omits pods of ignored phases. It also omits pods
 * without a node, unless the footprint holds owners. Berth keeps amounts and volumes while a workload asks for them.
 * The first such workload makes Berth read all pods again; they are unknown until then.
 */
export class FootprintPods implements Component, Pick<FootprintObservations, "pods"> {
  readonly name = "footprint-pods";
  readonly #options: FootprintPodsOptions;
  readonly #informers: InformerSet<Pod>;
  /** Keys of the informers of each footprint in force. */
  #keys: ReadonlyMap<Footprint, readonly string[]> = new Map();

  constructor(options: FootprintPodsOptions) {
    this.#options = options;
    this.#informers = new InformerSet({
      ...options,
      name: this.name,
      resource: pods,
      onChange: (change) => this.#tell(change),
    });
  }

  /** Sets all footprints; Berth does not reread an unchanged selection. Call it at any time, also before `start`. */
  want(footprints: readonly Footprint[]): void {
    const all = footprints.flatMap(({ workloads }) => workloads);
    const mask = [
      ...ALWAYS,
      ...(all.some(({ requests }) => requests.length > 0) ? AMOUNTS : []),
      ...(all.some(({ csiDrivers }) => csiDrivers.length > 0) ? VOLUMES : []),
    ];
    const wanted = new Map<string, WantedInformer<Pod>>();
    const keysOf = (footprint: Footprint): readonly string[] => {
      const informers = footprint.workloads.map((workload) => toInformer(footprint, workload, mask));
      for (const informer of informers) wanted.set(informer.key, informer);
      return [...new Set(informers.map(({ key }) => key))];
    };
    this.#keys = new Map(footprints.map((footprint) => [footprint, keysOf(footprint)]));
    this.#informers.want([...wanted.values()]);
  }

  /** Each pod once. `undefined` also for a footprint that is not wanted. */
  pods(footprint: Footprint, node: string): readonly Pod[] | undefined {
    return this.#gather(footprint, (informer) => informer.byIndex(BY_NODE, node));
  }

  /** Pods of the footprint, each once. Includes pods without a node only when the footprint holds owners. */
  podsOf(footprint: Footprint, { namespace, labelledUid }: PodsAmong = {}): readonly Pod[] | undefined {
    return this.#gather(footprint, (informer) => {
      if (labelledUid !== undefined) return informer.byIndex(BY_LABELLED_UID, labelledUid);
      return namespace === undefined ? [...informer.list()] : informer.byIndex(BY_NAMESPACE, namespace);
    });
  }

  /** Nodes of the pods in this namespace, of all footprints. */
  nodesOfNamespace(namespace: string): ReadonlySet<string> {
    return this.#nodes(BY_NAMESPACE, namespace);
  }

  /** Nodes of the pods that mount this claim, of the footprints that ask for drivers. */
  nodesOfClaim(namespace: string, claim: string): ReadonlySet<string> {
    return this.#nodes(BY_CLAIM, `${namespace}/${claim}`);
  }

  start(signal: AbortSignal): Promise<Running> {
    return this.#informers.start(signal);
  }

  /** A selection that Berth cannot read, with the reason. A lost connection is no problem for a minute. */
  problem(): string | undefined {
    return this.#informers.problem();
  }

  #gather(
    footprint: Footprint,
    read: (informer: NonNullable<ReturnType<InformerSet<Pod>["get"]>>) => readonly Pod[],
  ): readonly Pod[] | undefined {
    const keys = this.#keys.get(footprint);
    if (keys === undefined) return undefined;
    const informers = keys.map((key) => this.#informers.get(key));
    const known = informers.filter((informer) => informer !== undefined);
    if (known.length < informers.length) return undefined;
    const [only] = known;
    if (only !== undefined && known.length === 1) return read(only);
    const byUid = new Map<string, Pod>();
    for (const informer of known) for (const pod of read(informer)) byUid.set(pod.metadata?.uid ?? "", pod);
    return [...byUid.values()];
  }

  #nodes(index: string, value: string): ReadonlySet<string> {
    const nodes = new Set<string>();
    for (const key of new Set([...this.#keys.values()].flat()))
      for (const pod of this.#informers.get(key)?.byIndex(index, value) ?? [])
        for (const node of nodeOf(pod)) nodes.add(node);
    return nodes;
  }

  #tell(change: Change<Pod>): void {
    this.#options.onPod?.(change);
    for (const node of nodesOfChange(change)) this.#options.onChange(node);
  }
}

function claimsOf({ metadata, spec }: Pod): readonly string[] {
  const { namespace = "", name = "" } = metadata ?? {};
  return (spec?.volumes ?? []).flatMap((volume) => {
    const claim = claimOf(volume, name);
    return claim === undefined ? [] : [`${namespace}/${claim}`];
  });
}

const UID_LENGTH = 36;

/** The selection that the API server can apply for a workload, and the fields to keep of its pods. */
function toInformer(
  { hold }: Footprint,
  { podSelector, ignorePhases }: NeedingPods,
  mask: FieldMask,
): WantedInformer<Pod> {
  const labelSelector = selectorText(podSelector);
  const fields = [...ignorePhases].map((phase) => `status.phase!=${phase}`);
  if (hold === undefined) fields.push("spec.nodeName!=");
  const fieldSelector = fields.sort().join(",");
  return {
    key: JSON.stringify([labelSelector, fieldSelector, mask]),
    scope: { ...(labelSelector && { labelSelector }), ...(fieldSelector && { fieldSelector }) },
    project: keepFields(mask),
    indexes: {
      [BY_NODE]: nodeOf,
      [BY_NAMESPACE]: ({ metadata }) => [metadata?.namespace ?? ""],
      [BY_CLAIM]: claimsOf,
      [BY_LABELLED_UID]: ({ metadata }) =>
        Object.values(metadata?.labels ?? {}).filter(({ length }) => length === UID_LENGTH),
    },
  };
}
