/** Interfaces through which a capability takes part in a command. A command reads once and does not watch. */
import { listObjects, type OneShotRun, type Section } from "@berth/host";
import { type DaemonSet, daemonSets, type KubeObject, type Node, type Pod, pods } from "@berth/kube";
import type { SharedInformers } from "@berth/runtime";
import type { DocumentWarning } from "../api/warnings.ts";
import type { BoundCapability, Contribution, Finding, Instant, NodeView } from "./capability.ts";
import type { CleanOnce } from "./clean-once.ts";
import type { PlanDiff } from "./explain/diff.ts";
import type { RuleForecast } from "./explain/removals.ts";
import type { Comparison } from "./explain/trace.ts";
import type { NodePlan } from "./plan.ts";

/** A capability whose marks others wait for. `isGiven`: its rules are known to the command. */
export interface NodeFacts {
  readonly capability: BoundCapability;
  readonly isGiven: boolean;
}

export interface LookAt {
  readonly run: OneShotRun;
  /** The command disposes this at its end. Add everything that keeps running. */
  readonly owned: AsyncDisposableStack;
  readonly facts: readonly NodeFacts[];
  /** Name of the only node to read about. Default: all nodes. */
  readonly only?: string;
}

export interface PlanAt extends LookAt {
  /** All nodes of the cluster, without unused fields. None until the informers of the command have settled. */
  readonly nodes: () => Iterable<Node>;
}

export interface ExplainAt extends LookAt {
  readonly node: Node;
  /** The status of a document of the cluster (`cluster/x`), as a running Berth wrote it. */
  readonly statusOf: (rule: string) => unknown;
}

export interface PodAt extends Omit<LookAt, "only"> {
  readonly pod: Pod;
  /** All nodes of the cluster, without unused fields. */
  readonly nodes: readonly Node[];
}

export interface SeenCapability {
  readonly capability: BoundCapability;
  /** Reads more data about a node. Too expensive for commands that read many nodes. */
  readonly lookUp?: (node: Node) => Promise<void>;
}

export interface PlannedNodes {
  readonly diff: PlanDiff;
  readonly rules: readonly RuleForecast[];
  /** All nodes of the cluster were planned. Otherwise shares of all nodes are unknown. */
  readonly isWhole: boolean;
  readonly now: Instant;
}

/** The output of `plan` in addition to the changes of nodes. */
export interface PlanSection extends Section {
  /** One sentence each, below the nodes. */
  readonly notes?: readonly string[];
  /** What a user should set or check, which tests of documents leave out: below the blocks, each ending with a line feed. Default none. */
  readonly advice?: readonly string[];
  /** About documents in force. Default none. */
  readonly warnings?: readonly DocumentWarning[];
  /** Berth would also write objects other than nodes. Default false. */
  readonly isChanging?: boolean;
}

export interface PlanningCapability extends SeenCapability {
  /** Called for each node, with its plan and the contribution of this capability. */
  readonly add?: (plan: NodePlan, contribution: Contribution) => void;
  readonly section?: (planned: PlannedNodes) => PlanSection | undefined;
}

/** The output of `explain node` in addition to the marks. */
export interface NodeSection extends Section {
  /** True when the section already contains this finding. Default: false. */
  readonly tells?: (finding: Finding) => boolean;
}

export interface ExplainingCapability extends SeenCapability {
  readonly section?: (view: NodeView, now: Instant) => NodeSection;
}

/** @typeParam T the compiled documents of the capability. `inForce` is `undefined` without a source of documents. */
export interface NodeOnce<T> extends CleanOnce<T> {
  plan(inForce: T | undefined, at: PlanAt): Promise<PlanningCapability>;
  explain(inForce: T | undefined, at: ExplainAt): Promise<ExplainingCapability>;
  readonly explainPod?: (inForce: T | undefined, at: PodAt) => Promise<Section | undefined>;
  /** What has to hold so that the pod can run on this node, beside labels, affinity and taints. Default nothing. */
  readonly placePod?: (inForce: T | undefined, at: PodAt, on: Node) => Promise<readonly Comparison[]>;
}

/** Informers that read the pods of one node only. */
export function podsOn(node: string, informers: SharedInformers): SharedInformers {
  return {
    informer(asked) {
      const { resource, scope } = asked;
      if (resource.group !== pods.group || resource.plural !== pods.plural) return informers.informer(asked);
      const fieldSelector = [...(scope?.fieldSelector?.split(",") ?? []), `spec.nodeName=${node}`].join(",");
      return informers.informer({ ...asked, scope: { ...scope, fieldSelector } });
    },
  };
}

/** All DaemonSets, without `managedFields`. `undefined` without the permission; `run` then notes the consequence. */
export function listDaemonSets(
  run: OneShotRun,
  consequence: string,
): Promise<readonly DaemonSet[] | undefined> {
  return listObjects({ resource: daemonSets, project: withoutManagers, consequence }, run);
}

/** Drops `managedFields`, which can be the largest part of an object. */
export function withoutManagers<T extends KubeObject>(object: T): T {
  const { managedFields: _, ...metadata } = object.metadata ?? {};
  return { ...object, metadata };
}

/** Keeps the fields that decide which pods fit a node, and the fields with marks. */
export function slimNode({ status, ...node }: Node): Node {
  const { nodeInfo, allocatable } = status ?? {};
  return {
    ...withoutManagers(node),
    status: { ...(nodeInfo && { nodeInfo }), ...(allocatable && { allocatable }) },
  };
}
