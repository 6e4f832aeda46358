/** What tells how far Berth has come, in stories about WorkerPools. */
import { deployments, nodes, type Pod, pods } from "@berth/kube";
import { labelRules, workerPools } from "@berth/placement";
import type { Scene, Stage } from "@berth/testcluster";
import { deploymentName, OF_STORY, poolObject, SELECTED } from "./footprint-pools-actor.ts";
import { isKept, PLACES, UID_LABEL } from "./footprint-pools-oracle.ts";
import { createLabelSentinel, type Guides, isObserved, merge, SENTINEL, STATUS } from "./scene.ts";

export interface Sentinel {
  readonly fence: Scene["fence"];
  /** The first step begins. */
  begin(): void;
}

/** No Deployment of these stories has so many pods. */
const WRONG_COUNT = 99;

/**
 * One object for each watch. At each round the pod of the sentinel is selected or is not, and its node carries a claim or
 * does not; the finalizer of its pool is taken off, and a number of pods written that is wrong. A label rule answers for
 * nodes: it is written by the same hand as marks of footprints.
 *
 * The Deployment of its pool has another name, so that an older view shows it as old as the rest. It is made at the start and
 * never changes after; by a view from before that the pool cannot tell how many pods it has, and does not have to.
 */
export async function createPoolSentinel(stage: Stage): Promise<Sentinel> {
  let edits = 0;
  let hasBegun = false;
  const rule = (): object => ({ removalDelay: edits % 2 === 0 ? "0s" : "0ms" });
  const label = await createLabelSentinel(stage);
  const { metadata } = await stage.create(workerPools, poolObject(SENTINEL, 0));
  const uid = metadata?.uid ?? "";
  await stage.create(pods, sentinelPod(stage, uid));
  const guides: Guides = {
    async change() {
      edits += 1;
      const labels = { [SELECTED]: edits % 2 === 0 ? null : OF_STORY[SELECTED] };
      await stage.patch(pods, SENTINEL, merge({ metadata: { labels } }));
      await stage.patch(labelRules, SENTINEL, merge({ spec: rule() }));
    },
    // The pod answers on its node, and no node is written while the watch of nodes stands still.
    answered: () => isObserved(stage, labelRules),
  };
  const fence: Scene["fence"] = {
    resource: nodes,
    companions: [labelRules, pods, workerPools],
    name: SENTINEL,
    async change() {
      await Promise.all([guides.change(), label.change(), tear(stage, label.round())]);
    },
    answered() {
      const { annotations = {} } = stage.latest(nodes, SENTINEL)?.metadata ?? {};
      const isClaimed = annotations[`${PLACES.prefix}${uid}`] !== undefined;
      const pool = stage.latest(workerPools, SENTINEL) ?? {};
      const isCounted = !hasBegun || pool.status?.replicas === 0;
      const isMade = stage.latest(deployments, deploymentName(SENTINEL)) !== undefined;
      const isMarked = label.answered() && isClaimed === (edits % 2 === 1);
      return isMarked && isKept(pool) && isMade && isCounted && guides.answered();
    },
    guides,
  };
  return {
    fence,
    begin() {
      hasBegun = true;
    },
  };
}

/** What Berth puts back each time. */
async function tear(stage: Stage, round: number): Promise<void> {
  const status = { replicas: WRONG_COUNT };
  const metadata = { finalizers: null, annotations: { "sentinel/round": `${round}` } };
  await stage.patch(workerPools, SENTINEL, merge({ status }), STATUS);
  await stage.patch(workerPools, SENTINEL, merge({ metadata }));
}

/** Of the pool itself. It is selected from the first round on. */
function sentinelPod(stage: Stage, uid: string): Pod {
  const owner = { apiVersion: "ate.dev/v1alpha1", kind: "WorkerPool", name: stage.nameOf(SENTINEL), uid };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: SENTINEL,
      namespace: "default",
      labels: { [UID_LABEL]: uid },
      ownerReferences: [{ ...owner, controller: true }],
    },
    spec: {
      containers: [{ name: "main", image: "registry.test/ateom:1" }],
      nodeName: stage.nameOf(SENTINEL),
      terminationGracePeriodSeconds: 0,
    },
  };
}
