/** A cluster for tests of node footprints and of the fleet, and what agent-substrate's pull request 134 leaves on its nodes. */

import path from "node:path";
import { crds, foreignKinds } from "@berth/cli";
import { instances, workloadDeployments, workloads } from "@berth/fleet";
import {
  customResourceDefinitions,
  type Node,
  namespaces,
  type ObjectName,
  type Resource,
} from "@berth/kube";
import { nodeFootprints, originalFootprint, workerPools } from "@berth/placement";
import { eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { NAMESPACE } from "./fixture.ts";

/** The drop-in for pull request 134. */
export const DROP_IN: string = path.join(
  import.meta.dirname,
  "../examples/footprint/agent-substrate-pr-134.yaml",
);
export const LABEL: string = originalFootprint.nodeLabel.key;
export const CLAIM: string = originalFootprint.claimPrefix;
export const FINALIZER: string = originalFootprint.finalizer;
export const UID_LABEL: string = originalFootprint.podLabel;
/** Where the agent's DaemonSet is. */
export const AGENT: Required<ObjectName> = originalFootprint.agent;
/** The cluster of this process with all controllers, Berth's CRDs and the namespaces of both. */
export const sharedFullCluster = (): Promise<TestCluster> =>
  sharedTestCluster({
    with: ["controller-manager", "scheduler", "kwok"],
    prepare: { name: "berth", run: prepareFull },
  });

async function prepareFull(cluster: TestCluster): Promise<void> {
  const { client } = cluster;
  for (const crd of crds(foreignKinds(["worker-pools", "fleet"])))
    await eventually(() => client.apply(customResourceDefinitions, crd));
  const kinds: readonly Resource[] = [nodeFootprints, workerPools, workloads, workloadDeployments, instances];
  for (const kind of kinds) await eventually(() => client.list(kind));
  for (const name of [NAMESPACE, AGENT.namespace]) await client.create(namespaces, { metadata: { name } });
  // The garbage collector looks for new kinds when it starts, and then every 30 s.
  await cluster.stopComponent("kube-controller-manager", "SIGKILL");
  await cluster.startComponent("kube-controller-manager");
}

/** A pool, as far as pods and claims name it. */
export interface Pool {
  readonly name: string;
  readonly uid: string;
}

/** What a node carries of the original footprint: the label's value, and the groups of its claims, sorted. */
export interface Marks {
  readonly label: string | undefined;
  readonly claims: readonly string[];
}

/** Claims count with the value that the original gives them, the empty text; another value is told. */
export function marksOf({ metadata }: Node): Marks {
  const claims = Object.entries(metadata?.annotations ?? {}).filter(([key]) => key.startsWith(CLAIM));
  const shown = claims.map(([key, value]) => `${key.slice(CLAIM.length)}${value === "" ? "" : `=${value}`}`);
  return { label: metadata?.labels?.[LABEL], claims: shown.sort() };
}

export function markedBy(...pools: readonly (Pool | undefined)[]): Marks {
  const claims = pools.flatMap((pool) => pool?.uid ?? []).sort();
  return { label: claims.length > 0 ? "true" : undefined, claims };
}
