/** All kinds of the fleet. */
import type { CustomKind } from "@berth/host";
import { cellKind, withdrawalKind } from "./cell.ts";
import { instanceKind } from "./instance.ts";
import { workloadKind } from "./workload.ts";
import { workloadDeploymentKind } from "./workload-deployment.ts";

export { cellKind, instanceKind, withdrawalKind, workloadDeploymentKind, workloadKind };

/** Kinds of `compute.datumapis.com`. */
export const fleetKinds: readonly CustomKind[] = [workloadKind, workloadDeploymentKind, instanceKind];
/** Berth's own kinds, in the cluster that Berth runs in. */
export const hubKinds: readonly CustomKind[] = [cellKind, withdrawalKind];
