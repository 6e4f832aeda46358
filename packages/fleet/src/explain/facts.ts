/** What is known of the fleet in one namespace, and what running controllers see of it. Pure. */
import type { Pod } from "@berth/kube";
import { isOwnedBy, ownerOf } from "../api/owner.ts";
import type { Seen } from "../api/seen.ts";
import type { Instance, Workload, WorkloadDeployment } from "../api/workload.ts";
import { type DeploymentDecision, decideDeployment } from "../deployment/decide.ts";
import type { NetworkStep } from "../deployment/status.ts";
import { handedDownLimits } from "../deployment/template-size.ts";
import { type FleetSpec, listedCities } from "../fleet/document.ts";
import type { InstanceView, NetworkSeen, QuotaSeen } from "../instance/view.ts";
import { decideNetwork, failedBinding, type NetworkDecision, type NetworkView } from "../network/decide.ts";
import { citiesNamed, citiesOf, decideWorkload, type WorkloadDecision } from "../workload/decide.ts";
import { isCarried, type PlaneFacts } from "./planes.ts";

export type NetworkLists = Omit<NetworkView, "deployment">;

/** What a command could not read. Decisions that depend on it are left out. */
export interface Unread {
  readonly reason: "SourceNotRead";
  readonly what: "networks" | "quota";
  readonly message: string;
}

export interface FleetFacts {
  /** Without a document Fleet: its defaults. */
  readonly spec: FleetSpec;
  /** A document Fleet was given. Otherwise cities and quota are not known. */
  readonly isGiven: boolean;
  readonly nowMs: number;
  /** All of the namespace. */
  readonly deployments: readonly WorkloadDeployment[];
  /** All of the namespace. */
  readonly instances: readonly Instance[];
  /** `off`: the cluster has no networks. `unknown`: they could not be read. */
  readonly networks: NetworkLists | "off" | "unknown";
  readonly quotaOf: (instance: Instance) => QuotaSeen;
  readonly podOf: (instance: Instance) => Seen<Pod>;
  /** New Instances need both. */
  readonly unread: readonly Unread[];
  /** Absent: the Instances of this cluster run here. */
  readonly planes?: PlaneFacts | undefined;
}

/** `SourceNotRead: quota: the ResourceClaims cannot be read` */
export function unreadText({ reason, what, message }: Unread): string {
  return `${reason}: ${what}: ${message}`;
}

/** `undefined`: not known, or any. */
export function knownCities({ networks, spec, isGiven, planes }: FleetFacts): readonly string[] | undefined {
  if (networks === "unknown") return undefined;
  if (planes !== undefined) {
    const located = networks === "off" ? [] : citiesOf(networks.locations, networks.locationNamespaces);
    const ofCells = planes.cells.flatMap((it) => it.spec?.city ?? []);
    return [...new Set([...spec.cities, ...located, ...ofCells])].sort();
  }
  if (networks === "off") return isGiven ? listedCities(spec) : undefined;
  return [...citiesOf(networks.locations, networks.locationNamespaces)].sort();
}

/** As the controller of Workloads decides. Without a Fleet, cities count as served. */
export function workloadDecision(workload: Workload, facts: FleetFacts): WorkloadDecision {
  const { deployments, networks, nowMs } = facts;
  const decision = decideWorkload({
    workload,
    deployments: deploymentsOf(workload, facts),
    deploymentNamed: (name) => deployments.find(({ metadata }) => metadata?.name === name),
    cities: new Set(knownCities(facts) ?? citiesNamed(workload)),
    ...(typeof networks === "object" && {
      hasNetwork: (namespace: string, name: string) =>
        networks.networks.some(({ metadata }) => metadata?.namespace === namespace && metadata.name === name),
    }),
    nowMs,
  });
  if (networks !== "unknown" || workload.metadata?.deletionTimestamp !== undefined) return decision;
  // A Network that does not exist stops each of them, and a city without a Location the creations.
  return { create: [], patch: [], delete: [], findings: decision.findings };
}

export function deploymentsOf(
  { metadata }: Workload,
  { deployments }: FleetFacts,
): readonly WorkloadDeployment[] {
  return deployments.filter(({ spec }) => spec?.workloadRef.uid === metadata?.uid);
}

export function instancesOf(deployment: WorkloadDeployment, { instances }: FleetFacts): readonly Instance[] {
  return instances.filter((it) => isOwnedBy(it, deployment));
}

const ELSEWHERE: DeploymentDecision = Object.freeze({ removeGate: [], actions: [], findings: [] });

/** As the controller of deployments decides. About a deployment that runs in a cell, the cell decides. */
export function deploymentDecision(deployment: WorkloadDeployment, facts: FleetFacts): DeploymentDecision {
  if (isCarried(deployment)) return ELSEWHERE;
  const decision = decideDeployment({
    deployment,
    instances: instancesOf(deployment, facts),
    instanceNamed: (name) => facts.instances.find(({ metadata }) => metadata?.name === name),
    network: facts.networks === "unknown" ? { is: "waiting" } : stepOf(networkDecision(deployment, facts)),
    limits: handedDownLimits(facts.spec),
    hasQuota: facts.spec.quota !== undefined,
    rollHold: () => (facts.unread.length === 0 ? undefined : "SourceNotRead"),
    nowMs: facts.nowMs,
  });
  if (facts.unread.length === 0) return decision;
  const { actions, findings } = decision;
  const creation = actions.findIndex((it) => it.do === "create");
  return { actions: creation < 0 ? actions : actions.slice(0, creation), findings };
}

function stepOf(decision: NetworkDecision | undefined): NetworkStep {
  if (decision === undefined) return { is: "off" };
  const { ready, location, blocked } = decision;
  return { is: ready ? "ready" : "waiting", ...(location && { location }), ...blocked };
}

/** `undefined`: the cluster has no networks, or they could not be read. */
export function networkDecision(
  deployment: WorkloadDeployment,
  { networks }: FleetFacts,
): NetworkDecision | undefined {
  return typeof networks === "object" ? decideNetwork({ ...networks, deployment }) : undefined;
}

export function deploymentOf(
  instance: Instance,
  { deployments }: FleetFacts,
): WorkloadDeployment | undefined {
  const name = ownerOf(instance)?.name;
  return deployments.find(({ metadata }) => metadata?.name === name);
}

/** What the controller of Instances decides from. */
export function instanceView(instance: Instance, facts: FleetFacts): InstanceView {
  const { spec, nowMs, quotaOf, podOf } = facts;
  return {
    instance,
    nowMs,
    knownMs: 0,
    rules: spec,
    source: spec.cell,
    quota: quotaOf(instance),
    network: networkSeen(instance, facts),
    provider: spec.provider === "pods" ? { is: "pods", pod: podOf(instance) } : { is: "external" },
  };
}

function networkSeen(instance: Instance, facts: FleetFacts): NetworkSeen {
  const { networks } = facts;
  if (networks === "off") return { is: "off" };
  const deployment = deploymentOf(instance, facts);
  if (networks === "unknown" || deployment === undefined) return { is: "on", isReady: false };
  const { uid } = deployment.metadata ?? {};
  const ours = networks.bindings.filter(({ metadata }) =>
    metadata?.ownerReferences?.some((owner) => owner.uid === uid),
  );
  const isReady = networkDecision(deployment, facts)?.ready === true;
  return { is: "on", isReady, failed: failedBinding(ours) };
}
