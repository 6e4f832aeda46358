/** Pods for tests, and what is seen of them. */
import type { OwnerReference, Pod, PodSpec } from "@berth/kube";
import type { FootprintObservations, OwnerIdentity } from "../footprint-observations.ts";

export interface PodInit {
  readonly node?: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly phase?: string;
  readonly isEnding?: boolean;
  /** Its controllers, from the nearest to the farthest; each as `kind uid`, or `group/kind uid`. */
  readonly owners?: readonly string[];
  readonly spec?: Partial<PodSpec>;
}

/** A running pod on `n1` in `default`. */
export function makePod(name: string, init: PodInit = {}): Pod {
  const { node = "n1", namespace = "default", uid = `uid-${name}`, labels, phase = "Running", spec } = init;
  const ownerReferences = (init.owners ?? []).map(toReference);
  return {
    metadata: {
      name,
      namespace,
      uid,
      resourceVersion: "1",
      ...(labels && { labels }),
      ...(init.isEnding && { deletionTimestamp: "2026-01-01T00:00:00Z" }),
      ...(ownerReferences.length > 0 && { ownerReferences }),
    },
    spec: { containers: [], ...spec, nodeName: node },
    status: { phase },
  };
}

/** A pod of the pool with this uid, as agent-substrate makes them: by way of ReplicaSet and Deployment. */
export function makeAteom(pool: string, name: string, init: PodInit = {}): Pod {
  const labels = { "ate.dev/worker-pool-uid": pool, "ate.dev/worker-pool": `pool-${pool}` };
  const owners = ["apps/ReplicaSet rs", "apps/Deployment d", `ate.dev/WorkerPool ${pool}`];
  return makePod(name, { labels, owners, ...init });
}

/** All of the chain stands in the references, so that `sightOf` need not be told it. */
function toReference(owner: string, at: number): OwnerReference {
  const [path = "", uid = ""] = owner.split(" ");
  const [group, kind] = path.includes("/") ? path.split("/") : ["", path];
  const apiVersion = group === "" ? "v1" : `${group}/v1`;
  return { apiVersion, kind: kind ?? "", name: `${kind}-${uid}`, uid, controller: at === 0 };
}

export interface SightInit {
  readonly pods?: readonly Pod[] | undefined;
  /** Labels of namespaces; `null` has none of this name. What is not listed is unknown. */
  readonly namespaces?: Readonly<Record<string, Readonly<Record<string, string>> | null>>;
  /** Drivers by `namespace/claim`; what is not listed is unknown. */
  readonly drivers?: Readonly<Record<string, string | null>>;
  /** The owners of these pods, by name, are not known. */
  readonly ownersUnknown?: ReadonlySet<string>;
}

/** Sees these pods, for every footprint; `pods: undefined` has them not read yet. */
export function sightOf(init: SightInit): FootprintObservations {
  const { pods, namespaces = {}, drivers = {}, ownersUnknown } = init;
  return {
    pods: (_footprint, node) => pods?.filter(({ spec }) => spec?.nodeName === node),
    namespaceLabels: (name) => (Object.hasOwn(namespaces, name) ? namespaces[name] : undefined),
    owners: ({ metadata }) =>
      ownersUnknown?.has(metadata?.name ?? "") === true
        ? undefined
        : (metadata?.ownerReferences ?? []).map(toIdentity),
    driverOfClaim: (namespace, claim) =>
      Object.hasOwn(drivers, `${namespace}/${claim}`) ? drivers[`${namespace}/${claim}`] : undefined,
    daemonSet: () => undefined,
  };
}

function toIdentity({ apiVersion, kind, name, uid }: OwnerReference): OwnerIdentity {
  const group = apiVersion.includes("/") ? (apiVersion.split("/")[0] ?? "") : "";
  return { group, kind, resource: `${kind.toLowerCase()}s`, name, uid };
}
