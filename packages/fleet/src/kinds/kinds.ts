/** All kinds of `compute.datumapis.com`. */
import type { CustomKind } from "@berth/host";
import { instanceKind } from "./instance.ts";
import { workloadKind } from "./workload.ts";
import { workloadDeploymentKind } from "./workload-deployment.ts";

export { instanceKind, workloadDeploymentKind, workloadKind };

export const fleetKinds: readonly CustomKind[] = [workloadKind, workloadDeploymentKind, instanceKind];
