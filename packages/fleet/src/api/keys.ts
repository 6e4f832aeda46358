/** Labels, annotations, finalizers, gates and names on objects of the fleet. All of them are a wire format: fixed. */

import { createHash } from "node:crypto";
import type { KubeObject, ObjectMeta } from "@berth/kube";

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
  /** Of a deployment on the hub: its city, and its cell, which is derived from the placement. */
  city: "topology.datum.net/city-code",
  cell: "berth.dev/cell",
  /** Of an Instance in a project, which is a projection: its copy on the hub. */
  hubNamespace: "compute.datumapis.com/hub-namespace",
  hubUid: "compute.datumapis.com/hub-uid",
} as const;

/** The name of a cell that has none: then it is in the label `source-cluster` of its claims. */
export const DEFAULT_CELL = "single";

/** Key in `Location.spec.topology`. */
export const CITY_TOPOLOGY = "topology.datum.net/city-code";

export const annotations = {
  /** Of a Workload: codes of warnings that its author has seen, with commas between. */
  silence: "berth.dev/silence",
  sshKeys: "compute.datumapis.com/ssh-keys",
  /** Of a template, RFC 3339. It is part of the template's hash, so a new value rolls the Instances. */
  restartedAt: "compute.datumapis.com/restartedAt",
  /** Of a deployment: its first ordinal. Default 0. */
  ordinalStart: "berth.dev/ordinal-start",
  /** Of an Instance that another program made: the uid of its claim, which that program made as well. */
  claim: "berth.dev/claim",
  /** Of a deployment in a project: its namespace on the hub and in cells. */
  federationNamespace: "compute.datumapis.com/federation-namespace",
  /** Of a deployment on the hub and in a cell: the generation that it had in the project. */
  sourceGeneration: "compute.datumapis.com/source-generation",
  /** Of a deployment on the hub and in a cell: its uid in the project. Of a copy on the hub: the Instance's in the cell. */
  sourceUid: "berth.dev/source-uid",
  /** Of a deployment on the hub: see `CellPlacement`. */
  placement: "berth.dev/placement",
  /** Of a deployment in a cell: see `Origin`. */
  hubUid: "berth.dev/hub-uid",
  epoch: "berth.dev/epoch",
  signature: "berth.dev/signature",
  /** Of a deployment in a cell: it wants no Instances, and stays. */
  hold: "berth.dev/hold",
  /** Of a copy on the hub: the uid of its cell. */
  cellUid: "berth.dev/cell-uid",
  /** Of a deployment that Karmada carries: when it was pushed again, RFC 3339. */
  pushed: "berth.dev/pushed",
  /** Of a namespace on the hub: the uid of the project. */
  projectUid: "berth.dev/project-uid",
  /** Of a namespace on the hub and in a cell: the path of the project, where it is too long for the label. */
  upstreamCluster: "berth.dev/upstream-cluster-name",
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
  /** On deployments in a project: the hub's one goes first. */
  federator: "compute.datumapis.com/federator",
  /** On deployments on the hub: that of the cell goes first, or a Withdrawal stands for it. */
  direct: "berth.dev/direct",
  /** On a Cell, while a placement or a Withdrawal names it. */
  cell: "berth.dev/cell",
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

/** Characters of a label value. */
const MAX_LABEL = 63;

/** Label and, for a path that is too long for it, annotation of a namespace on the hub or in a cell. */
export function projectMarks(path: string): Required<Pick<ObjectMeta, "labels" | "annotations">> {
  const encoded = encodeCluster(path);
  if (encoded.length <= MAX_LABEL) return { labels: { [labels.upstreamCluster]: encoded }, annotations: {} };
  return {
    labels: { [labels.upstreamCluster]: shortened(encoded) },
    annotations: { [annotations.upstreamCluster]: encoded },
  };
}

/** The path of a project: `acme/web`, or the name alone. */
export const PROJECT_PATH: RegExp =
  /^(?:[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?\/)?[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;

/** The project of a namespace with `projectMarks`. An annotation counts only where the label is its hash. */
export function projectOfNamespace({ metadata }: KubeObject): string | undefined {
  const label = metadata?.labels?.[labels.upstreamCluster] ?? "";
  const full = metadata?.annotations?.[annotations.upstreamCluster];
  return projectOf(full !== undefined && label === shortened(full) ? full : label);
}

/** It never begins as an encoded path does. */
function shortened(encoded: string): string {
  return `sha256-${createHash("sha256").update(encoded).digest("hex").slice(0, 56)}`;
}

/** The namespace on the hub and in cells, by the uid of the namespace in the project. */
export function hubNamespaceOf(namespaceUid: string): string {
  return `ns-${namespaceUid}`;
}

/** The name of the project in a label value: the last segment of its path. `undefined` when it is no such value. */
export function projectOf(encoded: string): string | undefined {
  if (!encoded.startsWith("cluster-")) return undefined;
  const path = encoded.slice("cluster-".length).replaceAll("_", "/");
  return path.slice(path.lastIndexOf("/") + 1) || undefined;
}
