import { InformerSet, pick, type WantedInformer } from "@berth/host";
import { type Container, type Pod, type PodSpec, pods, type Volume } from "@berth/kube";
import type { Change, Component, Running } from "@berth/runtime";
import { ownValue } from "../node/mark.ts";
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
const BY_GROUP = "group";

/** One watch: which pods the server sends, and what is kept of them. */
interface PodScope {
  readonly labelSelector: string;
  readonly fieldSelector: string;
  readonly labels: ReadonlySet<string>;
  /** Labels by which footprints that hold owners group. */
  readonly groups: ReadonlySet<string>;
  readonly requests: ReadonlySet<string>;
  readonly volumes: boolean;
}

/**
 * The pods that footprints look for, and of these only what decides. One informer for each distinct selection, for as long
 * as a workload asks for it.
 *
 * What the server can tell apart is never received: by the workload's label selector, and by fields: pods without a node,
 * unless the footprint holds owners, and pods of the phases that do not count. A workload that also asks for something
 * that was dropped from the pods of a selection has them read anew, and they are unknown until then.
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
    const scopes = new Map<string, PodScope>();
    const selections = new Map<Footprint, readonly string[]>();
    for (const footprint of footprints) {
      const asked = scopesOf(footprint);
      for (const scope of asked) {
        const id = selectionOf(scope);
        scopes.set(id, both(scopes.get(id), scope));
      }
      selections.set(footprint, [...new Set(asked.map(selectionOf))]);
    }
    const wanted = new Map([...scopes].map(([id, scope]) => [id, toInformer(id, scope)]));
    this.#keys = new Map(
      [...selections].map(([footprint, ids]) => [footprint, ids.flatMap((id) => wanted.get(id)?.key ?? [])]),
    );
    this.#informers.want([...wanted.values()]);
  }

  /** Each pod once. `undefined` also for a footprint that is not wanted. */
  pods(footprint: Footprint, node: string): readonly Pod[] | undefined {
    return this.#gather(footprint, (informer) => informer.byIndex(BY_NODE, node));
  }

  /**
   * All of them, or some, each once; those without a node only when the footprint holds owners. Of one group: in all
   * namespaces, and only where a footprint that holds owners groups by a label.
   */
  podsOf(footprint: Footprint, { namespace, group }: PodsAmong = {}): readonly Pod[] | undefined {
    const { grouping, hold } = footprint;
    return this.#gather(footprint, (informer) => {
      if (group !== undefined && grouping.by === "PodLabel" && hold !== undefined)
        return informer.byIndex(BY_GROUP, groupText(grouping.label, group));
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

  /** Pods held, over all selections. */
  get size(): number {
    return this.#informers.size;
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

/** Neither holds a line break. */
function groupText(label: string, value: string): string {
  return `${label}\n${value}`;
}

function claimsOf({ metadata, spec }: Pod): readonly string[] {
  const { namespace = "", name = "" } = metadata ?? {};
  return (spec?.volumes ?? []).flatMap((volume) => {
    const claim = claimOf(volume, name);
    return claim === undefined ? [] : [`${namespace}/${claim}`];
  });
}

/**
 * A pod can be of several selections, and every workload is asked about it by what one of them has kept: each keeps what
 * any workload of the footprint reads.
 */
function scopesOf(footprint: Footprint): readonly PodScope[] {
  const own = footprint.workloads.map((workload) => scopeOf(footprint, workload));
  return own.map((scope) => own.reduce((kept, other) => both(other, kept), scope));
}

/** What the server can select of a workload, and what is read of its pods. */
function scopeOf(footprint: Footprint, workload: NeedingPods): PodScope {
  const { podSelector, requests, csiDrivers, ignorePhases } = workload;
  const { matchLabels = {}, matchExpressions = [] } = podSelector;
  const { grouping, hold } = footprint;
  const fields = [...ignorePhases].map((phase) => `status.phase!=${phase}`);
  if (hold === undefined) fields.push("spec.nodeName!=");
  return {
    labelSelector: selectorText(podSelector),
    fieldSelector: fields.sort().join(","),
    labels: new Set([
      ...Object.keys(matchLabels),
      ...matchExpressions.map(({ key }) => key),
      ...(grouping.by === "PodLabel" ? [grouping.label] : []),
    ]),
    groups: new Set(grouping.by === "PodLabel" && hold !== undefined ? [grouping.label] : []),
    requests: new Set(requests),
    volumes: csiDrivers.length > 0,
  };
}

/** Neither selector holds a line break. */
function selectionOf({ labelSelector, fieldSelector }: PodScope): string {
  return `${labelSelector}\n${fieldSelector}`;
}

function both(a: PodScope | undefined, b: PodScope): PodScope {
  if (a === undefined) return b;
  return {
    ...b,
    labels: a.labels.union(b.labels),
    groups: a.groups.union(b.groups),
    requests: a.requests.union(b.requests),
    volumes: a.volumes || b.volumes,
  };
}

function toInformer(selection: string, scope: PodScope): WantedInformer<Pod> {
  const groups = [...scope.groups].sort();
  const kept = [[...scope.labels].sort(), groups, [...scope.requests].sort(), scope.volumes];
  return {
    key: `${selection}\n${JSON.stringify(kept)}`,
    scope: {
      ...(scope.labelSelector && { labelSelector: scope.labelSelector }),
      ...(scope.fieldSelector && { fieldSelector: scope.fieldSelector }),
    },
    project: (pod) => slimPod(pod, scope),
    indexes: {
      [BY_NODE]: nodeOf,
      [BY_NAMESPACE]: ({ metadata }) => [metadata?.namespace ?? ""],
      [BY_CLAIM]: claimsOf,
      [BY_GROUP]: ({ metadata }) =>
        groups.flatMap((label) => {
          const value = ownValue(metadata?.labels, label);
          return value === undefined ? [] : [groupText(label, value)];
        }),
    },
  };
}

/** What decides of a pod: who made it, where it runs, whether it ends, and what of it this selection is asked for. */
function slimPod({ metadata, spec, status }: Pod, scope: PodScope): Pod {
  return {
    metadata: {
      ...pick(metadata ?? {}, [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "deletionTimestamp",
        "ownerReferences",
      ]),
      ...someOf("labels", metadata?.labels, scope.labels),
    },
    // The type promises more: none of it is read.
    ...(spec && { spec: slimSpec(spec, scope) as PodSpec }),
    ...(status && { status: pick(status, ["phase"]) }),
  };
}

function slimSpec(spec: PodSpec, { requests, volumes }: PodScope): Partial<PodSpec> {
  const { resources, containers, initContainers } = spec;
  return {
    ...pick(spec, ["nodeName"]),
    ...(requests.size > 0 && {
      ...(resources && { resources: slimResources(resources, requests) }),
      containers: containers.map((container) => slimContainer(container, requests)),
      ...(initContainers && {
        initContainers: initContainers.map((container) => slimContainer(container, requests)),
      }),
    }),
    ...(volumes && spec.volumes && { volumes: spec.volumes.flatMap(slimVolume) }),
  };
}

function slimContainer({ name, resources }: Container, requests: ReadonlySet<string>): Container {
  return { name, ...(resources && { resources: slimResources(resources, requests) }) };
}

function slimResources(
  { requests, limits }: NonNullable<Container["resources"]>,
  asked: ReadonlySet<string>,
): NonNullable<Container["resources"]> {
  return { ...someOf("requests", requests, asked), ...someOf("limits", limits, asked) };
}

/** Only volumes that a driver can serve, and of an ephemeral one only that it is one. */
function slimVolume({ name, csi, persistentVolumeClaim, ephemeral }: Volume): readonly Volume[] {
  if (csi) return [{ name, csi: pick(csi, ["driver"]) as typeof csi }];
  if (persistentVolumeClaim) {
    const { claimName } = persistentVolumeClaim;
    return [{ name, persistentVolumeClaim: { claimName } }];
  }
  return ephemeral ? [{ name, ephemeral: {} }] : [];
}

function someOf<F extends string>(
  field: F,
  values: Readonly<Record<string, string>> | undefined,
  keys: ReadonlySet<string>,
): { readonly [K in F]?: Readonly<Record<string, string>> } {
  const kept = Object.entries(values ?? {}).filter(([key]) => keys.has(key));
  return (kept.length > 0 ? { [field]: Object.fromEntries(kept) } : {}) as {
    readonly [K in F]?: Readonly<Record<string, string>>;
  };
}
