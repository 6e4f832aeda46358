/** What a capability shows of nodes and pods in a command, which looks once and does not watch. */
import { listObjects, type OneShotRun, type Section } from "@berth/host";
import { type DaemonSet, daemonSets, type KubeObject, type Node, type Pod } from "@berth/kube";
import type { BoundCapability, Contribution, Finding, Instant, NodeView } from "./capability.ts";
import type { CleanOnce } from "./clean-once.ts";
import type { PlanDiff } from "./explain/diff.ts";
import type { RuleForecast } from "./explain/removals.ts";
import type { NodePlan } from "./plan.ts";

/** A capability whose marks others wait for, and whether its rules were given to the command. */
export interface NodeFacts {
  readonly capability: BoundCapability;
  readonly isGiven: boolean;
}

export interface LookAt {
  readonly run: OneShotRun;
  /** Disposed at the end of the command, with what goes on looking. */
  readonly owned: AsyncDisposableStack;
  readonly facts: readonly NodeFacts[];
  /** Name of the only node that is asked about. Default all. */
  readonly only?: string;
}

export interface ExplainAt extends LookAt {
  readonly node: Node;
  /** Of a document of the cluster, as the running program has written it: `cluster/x`. */
  readonly statusOf: (rule: string) => unknown;
}

export interface PodAt extends Omit<LookAt, "facts" | "only"> {
  readonly pod: Pod;
  /** All of the cluster, without what nobody looks at. */
  readonly nodes: readonly Node[];
}

export interface SeenCapability {
  readonly capability: BoundCapability;
  /** Looks up about a node what only a look at few nodes can afford. */
  readonly lookUp?: (node: Node) => Promise<void>;
}

export interface PlannedNodes {
  readonly diff: PlanDiff;
  readonly rules: readonly RuleForecast[];
  /** All nodes of the cluster were planned: of a few nothing can be said about a share of all. */
  readonly isWhole: boolean;
  readonly now: Instant;
}

/** What `plan` says beside the changes of nodes. */
export interface PlanSection extends Section {
  /** One sentence each, below the nodes. */
  readonly notes?: readonly string[];
  /** Something else than nodes would be written. Default false. */
  readonly isChanging?: boolean;
}

export interface PlanningCapability extends SeenCapability {
  /** Of one node after the other, the whole node and what this capability says of it. */
  readonly add?: (plan: NodePlan, contribution: Contribution) => void;
  readonly section?: (planned: PlannedNodes) => PlanSection | undefined;
}

/** What `explain node` says beside the marks. */
export interface NodeSection extends Section {
  /** Is this finding told in the section? Default none is. */
  readonly tells?: (finding: Finding) => boolean;
}

export interface ExplainingCapability extends SeenCapability {
  readonly section?: (view: NodeView, now: Instant) => NodeSection;
}

/** @typeParam T what the documents of the capability make; `undefined` where there is no source of them. */
export interface NodeOnce<T> extends CleanOnce<T> {
  plan(inForce: T | undefined, at: LookAt): Promise<PlanningCapability>;
  explain(inForce: T | undefined, at: ExplainAt): Promise<ExplainingCapability>;
  readonly explainPod?: (inForce: T | undefined, at: PodAt) => Promise<Section | undefined>;
}

/** All of the cluster, without what nobody reads; `undefined` where they may not be read, which the run notes. */
export function listDaemonSets(
  run: OneShotRun,
  consequence: string,
): Promise<readonly DaemonSet[] | undefined> {
  return listObjects({ resource: daemonSets, project: withoutManagers, consequence }, run);
}

/** Who wrote which field takes most of an object. */
export function withoutManagers<T extends KubeObject>(object: T): T {
  const { managedFields: _, ...metadata } = object.metadata ?? {};
  return { ...object, metadata };
}

/** What says which pods can go to a node, and what stands on it. */
export function slimNode({ status, ...node }: Node): Node {
  const { nodeInfo } = status ?? {};
  return { ...withoutManagers(node), status: { ...(nodeInfo && { nodeInfo }) } };
}

/** `namespace/name`. */
export function pathOf({ metadata }: KubeObject): string {
  return `${metadata?.namespace ?? ""}/${metadata?.name ?? ""}`;
}
