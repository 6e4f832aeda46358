import { type FieldMask, InformerSet, keepFields, type WantedInformer } from "@berth/host";
import { type Pod, pods } from "@berth/kube";
import type { Change, Component, Running } from "@berth/runtime";
import { nodeOf, nodesOfChange } from "../node/pod-nodes.ts";
import { selectorText } from "../node/selector.ts";
import type { Footprint, NeedingPods } from "./footprint.ts";
import type { FootprintSight, Watching } from "./footprint-sight.ts";
import type { PodsAmong } from "./hold/held-pods.ts";
import { claimOf } from "./needs.ts";

export interface FootprintPodsOptions extends Watching {
  /** What is known of the pods of this node has changed. Must not throw. */
  readonly onChange: (node: string) => void;
  /** Each change of a pod, of what is kept of it, those without a node included. Must not throw. */
  readonly onPod?: (change: Change<Pod>) => void;
  /** The pods of a workload have become known: every node has to be looked at. Must not throw. */
  readonly onSynced: () => void;
}

const BY_NODE = "node";
const BY_NAMESPACE = "namespace";
const BY_CLAIM = "claim";
const BY_LABELLED_UID = "labelled uid";

/** Of each pod: who made it, where it runs, and whether it ends. */
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
 * The pods that footprints look for, and of these only what decides. One informer for each distinct selection, for as long
 * as a workload asks for it.
 *
 * What the server can tell apart is never received: by the workload's label selector, and by fields: pods without a node,
 * unless the footprint holds owners, and pods of the phases that do not count. Amounts and volumes are kept while any
 * workload asks for them: with the first that does all pods are read anew, and are unknown until then.
 */
export class FootprintPods implements Component, Pick<FootprintSight, "pods"> {
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

  /** All footprints from now on; a selection that stays is not read again. At any time, also before `start`. */
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

  /** All of them, or some, each once; those without a node only when the footprint holds owners. */
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

  /** A selection that cannot be read, with why. A lost connection is no problem for a minute. */
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

/** What the server can select of a workload, and what is kept of its pods. */
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
