/** Workloads, and decisions about them. */
import { findCondition } from "@berth/runtime";
import type {
  DeploymentStatus,
  Placement,
  Workload,
  WorkloadDeployment,
  WorkloadStatus,
} from "../../api/workload.ts";
import { aCondition, aTemplate, NOW_MS } from "../../deployment/testing/fixtures.ts";
import { decideWorkload, type WorkloadDecision, type WorkloadView } from "../decide.ts";

export function aPlacement(name: string, cityCodes: readonly string[], min = 2): Placement {
  return { name, cityCodes, scaleSettings: { minReplicas: min, instanceManagementPolicy: "OrderedReady" } };
}

/** `w`, uid `uid-w`, with one placement `us` in DFW and ORD. */
export function aWorkload(
  change: {
    name?: string;
    placements?: readonly Placement[];
    metadata?: Workload["metadata"];
    image?: string;
  } = {},
): Workload {
  const { name = "w", placements = [aPlacement("us", ["DFW", "ORD"])], metadata, image } = change;
  return {
    metadata: {
      name,
      namespace: "default",
      uid: `uid-${name}`,
      generation: 1,
      finalizers: ["compute.datumapis.com/workload-controller"],
      ...metadata,
    },
    spec: { template: aTemplate(image), placements },
  };
}

/** Cities DFW and ORD, all networks exist, and the deployments are those of the Workload. */
export function decide(
  workload: Workload,
  deployments: readonly WorkloadDeployment[] = [],
  change: Partial<WorkloadView> = {},
): WorkloadDecision {
  return decideWorkload({
    workload,
    deployments: deployments.filter(({ spec }) => spec?.workloadRef.uid === workload.metadata?.uid),
    deploymentNamed: (name) => deployments.find(({ metadata }) => metadata?.name === name),
    cities: new Set(["DFW", "ORD"]),
    hasNetwork: () => true,
    nowMs: NOW_MS,
    ...change,
  });
}

/** A status about the present spec, with so many Ready Instances, and `Available` as given. */
export function aStatus(
  ready: number,
  available: "True" | "False",
  reason: string,
  message = "",
): DeploymentStatus {
  return {
    replicas: ready + 1,
    currentReplicas: ready,
    updatedReplicas: ready,
    desiredReplicas: 2,
    readyReplicas: ready,
    observedGeneration: 1,
    conditions: [aCondition("Available", available, reason, message)],
  };
}

/** `False/Reason message`; empty: there is no such condition. */
export function verdict(of: Pick<WorkloadStatus, "conditions"> | undefined, type = "Available"): string {
  const found = findCondition(of?.conditions, type);
  return found === undefined ? "" : `${found.status}/${found.reason} ${found.message}`;
}
