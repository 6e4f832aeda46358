/** Labels, annotations, finalizers, gates and names on objects of the fleet. All of them are a wire format: fixed. */

/** Labels of an Instance, in every cluster. `WORKLOAD_UID` is also on deployments. */
export const labels = {
  workloadUid: "compute.datumapis.com/workload-uid",
  deploymentUid: "compute.datumapis.com/workload-deployment-uid",
  instanceIndex: "compute.datumapis.com/instance-index",
  deploymentName: "compute.datumapis.com/workload-deployment-name",
  cityCode: "compute.datumapis.com/city-code",
  workloadName: "compute.datumapis.com/workload-name",
  placementName: "compute.datumapis.com/placement-name",
  /** Of a claim: the cluster of its Instance, the Instance's namespace there, and its uid. */
  sourceCluster: "compute.datumapis.com/source-cluster",
  instanceNamespace: "compute.datumapis.com/instance-namespace",
  instanceUid: "compute.datumapis.com/instance-uid",
  /** Of a namespace in a cell: the project that it belongs to (see `encodeCluster`), and the namespace there. */
  upstreamCluster: "meta.datumapis.com/upstream-cluster-name",
  upstreamNamespace: "meta.datumapis.com/upstream-namespace",
} as const;

/** The name of a cell that has none: then it is in the label `source-cluster` of its claims. */
export const DEFAULT_CELL = "single";

/** Key in `Location.spec.topology`. */
export const CITY_TOPOLOGY = "topology.datum.net/city-code";

export const annotations = {
  sshKeys: "compute.datumapis.com/ssh-keys",
  /** Of a template, RFC 3339. It is part of the template's hash, so a new value rolls the Instances. */
  restartedAt: "compute.datumapis.com/restartedAt",
  /** Of a deployment: its first ordinal. Default 0. */
  ordinalStart: "berth.dev/ordinal-start",
  /** Of an Instance that another program made: the uid of its claim, which that program made as well. */
  claim: "berth.dev/claim",
  /** Of a CRD: the kind belongs to projects. */
  parentContexts: "discovery.miloapis.com/parent-contexts",
} as const;

export const finalizers = {
  /** On Workloads and deployments: their children go first. */
  workload: "compute.datumapis.com/workload-controller",
  /** On Instances: the pod and other leftovers go first. */
  instance: "compute.datumapis.com/instance-controller",
  /** On Instances: the claim goes first. */
  claim: "quota.compute.datumapis.com/claim-cleanup",
} as const;

/** Names in `spec.controller.schedulingGates`, in the order in which an Instance is created with them. */
export const gates = { network: "Network", quota: "Quota", referencedData: "ReferencedData" } as const;

/** `<workload>-<placement>-<city>`, the city in lower case. */
export function deploymentName(workload: string, placement: string, city: string): string {
  return `${workload}-${placement}-${city.toLowerCase()}`;
}

export function instanceName(deployment: string, ordinal: number): string {
  return `${deployment}-${ordinal}`;
}

/** The number after the last `-`, as `instanceName` writes it; otherwise -1 (`a-007`, `my-instance-foo`). */
export function ordinalOf(name: string): number {
  const [, digits] = /-(0|[1-9][0-9]{0,9})$/.exec(name) ?? [];
  return digits === undefined ? -1 : Number(digits);
}

/** The deployment that has, or would have, an Instance of this name. */
export function deploymentOfInstance(name: string): string | undefined {
  const ordinal = ordinalOf(name);
  return ordinal < 0 ? undefined : name.slice(0, -`-${ordinal}`.length);
}

export function bindingName(deployment: string, at: number): string {
  return `${deployment}-net-${at}`;
}

/** The deployment of a binding. `undefined`: the binding is of no deployment. */
export function deploymentOfBinding(binding: string): string | undefined {
  return /^(.+)-net-[0-9]+$/.exec(binding)?.[1];
}

export function claimName(instance: string): string {
  return `instance-${instance}`;
}

/** The Instance of a claim. `undefined`: the claim is not for an Instance. */
export function instanceOfClaim(claim: string): string | undefined {
  return claim.startsWith("instance-") ? claim.slice("instance-".length) : undefined;
}

/** The label value for a project: `cluster-` and its path with `_` for `/`. */
export function encodeCluster(path: string): string {
  if (path === "") throw new RangeError("a project path must not be empty");
  return `cluster-${path.replaceAll("/", "_")}`;
}

/** The name of the project in a label value: the last segment of its path. `undefined` when it is no such value. */
export function projectOf(encoded: string): string | undefined {
  if (!encoded.startsWith("cluster-")) return undefined;
  const path = encoded.slice("cluster-".length).replaceAll("_", "/");
  return path.slice(path.lastIndexOf("/") + 1) || undefined;
}
