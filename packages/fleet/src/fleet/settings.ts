import type { KubeClient } from "@berth/kube";
import type { HubConnections, ListedProject } from "../wiring/hub/planes.ts";
import type { FleetSpec, ProjectPlace } from "./document.ts";

/** A Fleet that was read, with the connections that it names. */
export interface FleetSettings {
  readonly spec: FleetSpec;
  /** The API server of `spec.quota.kubeconfig`. The caller closes it. Absent for `from: Cluster`. */
  readonly quota?: KubeClient | undefined;
  /** The connections of `spec.hub` and `spec.projects`, in mode `management`. */
  readonly hub?: HubConnections | undefined;
  /** Opens the connection of another kubeconfig. Rejects with an Error for the user. Default: such a Fleet has to wait. */
  readonly connect?: (kubeconfig: string) => Promise<KubeClient>;
  /** Reads the kubeconfigs of another list of projects. Rejects with an Error for the user. Default: such a Fleet has to wait. */
  readonly readProjects?: (listed: readonly ProjectPlace[]) => Promise<readonly ListedProject[]>;
  /** Why a document disagrees with the flags of the process. Default: it agrees. */
  readonly contradicts?: (spec: FleetSpec) => string | undefined;
}

/**
 * The name of the Lease of the fleet's controllers, beside Berth's own. A process of another mode or cell never waits for
 * it, nor does one of another installation in modes `single` and `management`. A cell has one Lease, whatever the
 * installation: the hub knows the name of the cell alone. No mode or cell has a dot.
 *
 * @param owner the name of the installation's objects, `berth`.
 */
export function leaseName({ mode, cell }: Pick<FleetSpec, "mode" | "cell">, owner: string): string {
  if (mode === "cell") return leaseOfCell(cell);
  return owner === "berth" ? `compute-${mode}` : `compute-${mode}.${owner}`;
}

export function leaseOfCell(cell: string): string {
  return `compute-cell-${cell}`;
}

/** The name of the cell whose Lease this is. `undefined`: it is another Lease. */
export function cellOfLease(name: string): string | undefined {
  return /^compute-cell-([^.]+)$/.exec(name)?.[1];
}

/** Whether a Lease is that of a fleet of this installation, or of a cell. */
export function isFleetLease(name: string, owner: string): boolean {
  if (cellOfLease(name) !== undefined) return true;
  const [lease, of = "berth"] = name.split(".");
  return of === owner && /^compute-(?:single|management)$/.test(lease ?? "");
}
