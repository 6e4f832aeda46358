import type { KubeClient } from "@berth/kube";
import type { FleetSpec } from "./document.ts";

/** A Fleet that was read, with the connections that it names. */
export interface FleetSettings {
  readonly spec: FleetSpec;
  /** The API server of `spec.quota.kubeconfig`. The caller closes it. Absent for `from: Cluster`. */
  readonly quota?: KubeClient;
}

/** The name of the Lease, so that a process of another mode or cell never waits for this one. */
export function leaseName({ mode, cell }: FleetSpec): string {
  return mode === "single" ? "compute-single" : `compute-${mode}-${cell}`;
}
