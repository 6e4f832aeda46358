/** A deployment on its planes, and cells as the hub sees them. */
import type { KubeObject } from "@berth/kube";
import type { Cell, Withdrawal } from "../../api/cell.ts";
import { createSigner, originAnnotations, type Signer } from "../../api/origin.ts";
import { type CellPlacement, formatPlacement } from "../../api/placement.ts";
import type { DeploymentStatus, WorkloadDeployment } from "../../api/workload.ts";
import { aDeployment, type DeploymentFields } from "../../deployment/testing/fixtures.ts";
import type { CellSeen, Found } from "../cells/seen.ts";

export const HUB = "hub-uid";
export const SOURCE = "source-uid";
export const signer: Signer = createSigner(Buffer.alloc(32, 1));
export const AWAY: CellSeen["state"] = { is: "away", reason: "CellUnreachable", message: "silent" };

export function aCell(
  name: string,
  fields: Partial<CellSeen> & { readonly spec?: Partial<Cell["spec"]> } = {},
): CellSeen {
  const { spec, ...seen } = fields;
  return {
    cell: { metadata: { name }, spec: { city: "DFW", secretRef: { name }, uid: `uid-${name}`, ...spec } },
    state: { is: "synced" },
    hasApis: true,
    isAccepting: true,
    assigned: 0,
    isFull: false,
    ...seen,
  };
}

export function aPlacement(cell = "a", fields: Partial<CellPlacement> = {}): CellPlacement {
  return { cell, uid: `uid-${cell}`, epoch: 1, start: 0, last: fields.epoch ?? 1, ...fields };
}

/** In the project: `default/w-us-dfw`, uid `source-uid`, with Berth's marks. */
export function aSource(fields: DeploymentFields = {}): WorkloadDeployment {
  return aDeployment({
    ...fields,
    metadata: {
      uid: SOURCE,
      finalizers: ["compute.datumapis.com/federator"],
      annotations: { "compute.datumapis.com/federation-namespace": "ns-U" },
      ...fields.metadata,
    },
  });
}

/** On the hub: `ns-U/w-us-dfw`, of `source-uid`, placed in cell a. */
export function onHub(
  fields: DeploymentFields & { readonly placed?: CellPlacement | undefined; readonly source?: string } = {},
): WorkloadDeployment {
  const { placed = aPlacement(), source = SOURCE, metadata, ...rest } = fields;
  return aDeployment({
    ...rest,
    metadata: {
      namespace: "ns-U",
      uid: "hub-wd",
      labels: {
        "topology.datum.net/city-code": "DFW",
        "meta.datumapis.com/upstream-namespace": "default",
        "compute.datumapis.com/workload-uid": "uid-w",
        "berth.dev/cell": placed.cell,
      },
      annotations: {
        "berth.dev/source-uid": source,
        "compute.datumapis.com/source-generation": "1",
        "berth.dev/placement": formatPlacement(placed),
      },
      finalizers: ["berth.dev/direct"],
      ...metadata,
    },
  });
}

/** In a cell, signed by the hub. */
export function aFound(
  cell: CellSeen,
  fields: DeploymentFields & {
    readonly epoch?: number;
    readonly start?: number;
    readonly source?: string;
  } = {},
): Found {
  const { epoch = 1, start = 0, source = SOURCE, metadata, ...rest } = fields;
  const { uid: cellUid = "" } = cell.cell.spec ?? {};
  const origin = { hub: HUB, sourceUid: source, epoch, start };
  const place = { cellUid, namespace: "ns-U", name: fields.name ?? "w-us-dfw" };
  const deployment = aDeployment({
    ...rest,
    metadata: {
      namespace: "ns-U",
      uid: `wd-${cell.cell.metadata?.name}`,
      labels: {
        "topology.datum.net/city-code": "DFW",
        "meta.datumapis.com/upstream-namespace": "default",
        "compute.datumapis.com/workload-uid": "uid-w",
      },
      ...metadata,
      annotations: {
        "compute.datumapis.com/source-generation": "1",
        ...originAnnotations(origin, place, signer),
        ...metadata?.annotations,
      },
    },
  });
  return { cell, deployment, origin };
}

export function aWithdrawal(cell: string, fields: Partial<NonNullable<Withdrawal["spec"]>> = {}): Withdrawal {
  const spec = {
    cell,
    cellUid: `uid-${cell}`,
    namespace: "ns-U",
    name: "w-us-dfw",
    sourceUid: SOURCE,
    epoch: 1,
    start: 0,
    ...fields,
  };
  return { metadata: { name: `${spec.sourceUid}.${spec.cellUid}` }, spec };
}

export function aHubNamespace(
  labels: Readonly<Record<string, string>> = {},
  projectUid = "project-uid",
): KubeObject {
  return {
    metadata: {
      name: "ns-U",
      labels: {
        "meta.datumapis.com/upstream-cluster-name": "cluster-acme_web",
        "meta.datumapis.com/upstream-namespace": "default",
        ...labels,
      },
      annotations: { "berth.dev/project-uid": projectUid },
    },
  };
}

export function counts(ready: number, fields: Partial<DeploymentStatus> = {}): DeploymentStatus {
  return {
    replicas: ready,
    readyReplicas: ready,
    currentReplicas: ready,
    updatedReplicas: ready,
    desiredReplicas: 2,
    ...fields,
  };
}

export const going: { readonly deletionTimestamp: string } = { deletionTimestamp: "2026-01-01T00:00:00Z" };
