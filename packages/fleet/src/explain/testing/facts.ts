/** A Workload with its deployments and Instances, as a command has read them. */

import { styleFor } from "@berth/host";
import type { Pod } from "@berth/kube";
import { finalizers } from "../../api/keys.ts";
import type { Instance, Placement, Workload, WorkloadDeployment } from "../../api/workload.ts";
import { aDeployment, anInstance, aTemplate, type State } from "../../deployment/testing/fixtures.ts";
import { type FleetSpec, fleetKind } from "../../fleet/document.ts";
import type { FleetFacts, Unread } from "../facts.ts";

export const NOW_MS: number = Date.parse("2026-01-01T00:02:00Z");
export const plain: ReturnType<typeof styleFor> = styleFor({
  write: () => undefined,
  isTerminal: false,
  columns: undefined,
});

export const single: FleetSpec = fleetKind.spec.parse({ mode: "single", cities: ["DFW", "ORD"] });
export const withQuota: FleetSpec = { ...single, project: { id: "web" }, quota: { from: "Cluster" } };

export function placement(name: string, cityCodes: readonly string[], minReplicas: number): Placement {
  return { name, cityCodes, scaleSettings: { minReplicas, instanceManagementPolicy: "OrderedReady" } };
}

/** `default/w`, uid `uid-w`. */
export function aWorkload(parts: {
  readonly placements: readonly Placement[];
  readonly image?: string;
  readonly metadata?: Workload["metadata"];
}): Workload {
  const { placements, image, metadata } = parts;
  return {
    metadata: {
      name: "w",
      namespace: "default",
      uid: "uid-w",
      resourceVersion: "1",
      finalizers: [finalizers.workload],
      ...metadata,
    },
    spec: { template: aTemplate(image), placements },
  };
}

/** Its Instances from ordinal 0, in the states of `deployment/testing`: `R N Ro`. `x`: there is none. */
export function instancesIn(deployment: WorkloadDeployment, states: string): readonly Instance[] {
  return states.split(" ").flatMap((state, at) => {
    if (state === "x" || state === "") return [];
    const instance = anInstance(deployment, at, state as State);
    const metadata = Object.assign({ creationTimestamp: "2026-01-01T00:00:00Z" }, instance.metadata);
    return Object.assign(instance, { metadata });
  });
}

export const networksUnread: Unread = {
  reason: "SourceNotRead",
  what: "networks",
  message: "locations may not be listed",
};
export const quotaUnread: Unread = { reason: "SourceNotRead", what: "quota", message: "connection refused" };

export interface FactsParts extends Partial<Omit<FleetFacts, "podOf">> {
  /** By name of the Instance. */
  readonly pods?: Readonly<Record<string, Pod>>;
}

/** A cluster without networks, two minutes after the creation of all. */
export function factsOf({ pods = {}, ...parts }: FactsParts): FleetFacts {
  return {
    spec: single,
    isGiven: true,
    nowMs: NOW_MS,
    deployments: [],
    instances: [],
    networks: "off",
    quotaOf: () => ({ is: "off" }),
    unread: [],
    podOf: ({ metadata }) => {
      const value = pods[metadata?.name ?? ""];
      return value === undefined ? { is: "none" } : { is: "there", value };
    },
    ...parts,
  };
}

export { aDeployment };
