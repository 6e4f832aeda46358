/** The oracle of the story of pools finds each thing that it is there for, and nothing in what is right. */
import { type Deployment, deployments, nodes, pods, replicaSets } from "@berth/kube";
import { type WorkerPool, workerPools } from "@berth/placement";
import { type Author, aNode } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { ORPHAN } from "./footprint-oracle.ts";
import { PLACES, POOL_FINALIZER, UID_LABEL, unsettledPools } from "./footprint-pools-oracle.ts";
import { forbiddenOfPools } from "./footprint-pools-verdict.ts";
import { ToldHistory } from "./footprint-told.ts";

const UID = "pool-uid";
const GONE = "2026-01-01T00:00:00Z";

interface PoolState {
  readonly replicas?: number;
  readonly finalizers?: readonly string[];
  readonly isDeleted?: boolean;
  readonly counted?: number;
  readonly note?: string;
}

function poolOf({
  replicas = 1,
  finalizers = [POOL_FINALIZER],
  isDeleted,
  counted,
  note,
}: PoolState): WorkerPool {
  return {
    metadata: {
      name: "pool",
      uid: UID,
      finalizers,
      ...(note !== undefined && { annotations: { note } }),
      ...(isDeleted && { deletionTimestamp: GONE }),
    },
    spec: { replicas, ateomImage: "ateom:1" },
    ...(counted !== undefined && { status: { replicas: counted } }),
  };
}

interface DeploymentState {
  readonly replicas?: number;
  readonly owner?: string | null;
  readonly image?: string;
  readonly counted?: number;
  readonly note?: string;
}

function deploymentOf({
  replicas = 1,
  owner = UID,
  image = "ateom:1",
  counted,
  note,
}: DeploymentState): Deployment {
  const selector = { "ate.dev/worker-pool": "pool" };
  const wait = {
    name: "wait-for-atelet",
    image: "busybox:1.36",
    command: ["sh", "-c", 'until nc -z "$HOST_IP" 8085; do sleep 1; done'],
  };
  const main = { name: "ateom", image, args: ["--pod-uid=$(POD_UID)"] };
  const reference = { apiVersion: "ate.dev/v1alpha1", kind: "WorkerPool", name: "pool" };
  return {
    metadata: {
      name: "pool-deployment",
      uid: "deployment-uid",
      ...(note !== undefined && { annotations: { note } }),
      ...(owner !== null && {
        ownerReferences: [{ ...reference, uid: owner, controller: true, blockOwnerDeletion: true }],
      }),
    },
    spec: {
      replicas,
      selector: { matchLabels: selector },
      template: {
        metadata: { labels: { ...selector, [UID_LABEL]: UID } },
        spec: { initContainers: [wait], containers: [main] },
      },
    },
    ...(counted !== undefined && { status: { replicas: counted } }),
  };
}

class Told extends ToldHistory {
  pool(state: PoolState, by: Author = "controller", gone?: "DELETED"): this {
    return this.note(workerPools, { name: "pool", object: poolOf(state), by, ...(gone && { gone }) });
  }

  deployment(state: DeploymentState, by: Author = "controller", gone?: "DELETED"): this {
    const object = deploymentOf(state);
    return this.note(deployments, { name: "pool-deployment", object, by, ...(gone && { gone }) });
  }

  set(gone?: "DELETED"): this {
    const owner = {
      apiVersion: "apps/v1",
      kind: "Deployment",
      name: "pool-deployment",
      uid: "deployment-uid",
    };
    const object = { metadata: { name: "set", uid: "set-uid", ownerReferences: [owner] } };
    return this.note(replicaSets, { name: "set", object, by: "story", ...(gone && { gone }) });
  }

  pod(gone?: "DELETED"): this {
    const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "set", uid: "set-uid" };
    const metadata = { name: "p1", labels: { [UID_LABEL]: UID }, ownerReferences: [owner] };
    const object = { metadata, spec: { containers: [], nodeName: "n1" } };
    return this.note(pods, { name: "p1", object, by: "story", ...(gone && { gone }) });
  }

  node(isClaimed: boolean, by: Author = "controller"): this {
    const places = [`label/${PLACES.label}`, `annotation/${PLACES.prefix}${UID}`];
    const marks = Object.fromEntries(places.map((id) => [id, { c: "footprint", r: "config/atelet" }]));
    const bare = aNode("n1");
    const marked = bare
      .labelled({ [PLACES.label]: "true" })
      .annotated({ [`${PLACES.prefix}${UID}`]: "" })
      .annotated({ "berth.dev/marks": JSON.stringify({ v: 1, by: "berth", marks }) });
    return this.note(nodes, { name: "n1", object: (isClaimed ? marked : bare).build(), by });
  }

  get problems(): string {
    return forbiddenOfPools(this.entries, this.steps).join("\n");
  }
}

/** A pool with its Deployment, a pod, and a node with its claim. */
function told(): Told {
  return new Told()
    .node(false, "story")
    .next("come")
    .pool({ finalizers: [] }, "story")
    .pool({})
    .deployment({})
    .next("pods")
    .set()
    .pod()
    .deployment({ counted: 1 }, "story")
    .node(true)
    .pool({ counted: 1 });
}

/** Two steps on, so that nothing that was before can be taken for late. */
function later(before: Told): Told {
  const other = { metadata: { name: "p0" } };
  const at = before.entries.length;
  return before
    .next(`${at}-one`)
    .note(pods, { name: "p0", object: other, by: "story" })
    .next(`${at}-two`)
    .note(pods, { name: "p0", object: other, by: "story", gone: "DELETED" });
}

function deleted(): Told {
  return later(told()).next("delete").pool({ counted: 1, isDeleted: true }, "story");
}

/** Two steps on without a Deployment. */
function ending(): Told {
  return later(deleted().deployment({ counted: 1 }, "controller", "DELETED").next("collect").set("DELETED"));
}

const ENDED: PoolState = { counted: 1, isDeleted: true };

describe("a pool", () => {
  it("is right from its Deployment to its end", () => {
    const whole = ending().next("end").pod("DELETED").node(false).pool(ENDED, "story", "DELETED");
    expect(whole.problems).toBe("");
  });

  it("must not be let go while it has pods, or a Deployment, or lives", () => {
    expect(ending().pool(ENDED, "story", "DELETED").problems).toContain("though there is p1");
    expect(deleted().pool(ENDED, "story", "DELETED").problems).toContain("though there is pool-deployment");
    expect(told().pool({ counted: 1, finalizers: [] }).problems).toContain("though it lives");
    expect(deleted().pool({ ...ENDED, finalizers: [] }).problems).toContain("though there is");
  });

  it("must not be held once its deletion has begun", () => {
    const bare = new Told().pool({ finalizers: [], isDeleted: true }, "story").pool({ isDeleted: true });
    expect(bare.problems).toContain("being deleted");
  });

  it("is written for a reason, and never what others have of it", () => {
    expect(told().pool({ counted: 1 }).problems).toContain("for nothing");
    expect(told().pool({ counted: 3 }).problems).toContain("never had");
    expect(told().pool({ counted: 1, finalizers: [], note: "x" }).problems).toContain("foreign things");
    expect(ending().pool({ ...ENDED, counted: 0 }).problems).toContain("though it is being deleted");
  });

  it("that was orphaned goes without what it had, and is kept until that is done", () => {
    const finalizers = [POOL_FINALIZER, ORPHAN];
    const orphaning = later(
      later(told())
        .next("delete")
        .pool({ ...ENDED, finalizers }, "story"),
    );
    expect(orphaning.problems).toBe("");
    const done = later(orphaning.next("orphan").deployment({ counted: 1, owner: null }, "story"));
    expect(done.pool(ENDED, "story").pool(ENDED, "story", "DELETED").problems).toBe("");
    const early = later(told())
      .next("delete")
      .pool({ ...ENDED, finalizers }, "story");
    expect(later(early).pool(ENDED, "story", "DELETED").problems).toContain("the garbage collector");
  });
});

describe("a Deployment", () => {
  it("is made once for a pool that lives, as the pool wants it", () => {
    const again = later(told()).deployment({}, "story", "DELETED").deployment({});
    expect(again.problems).toContain("made twice");
    expect(told().deployment({ image: "other" }).problems).toContain("as no pool wants it");
    expect(ending().deployment({}).problems).toContain("as no pool wants it");
  });

  it("is written when it is not as the pool wants it, and not at rest", () => {
    const edited = told().deployment({ replicas: 5, counted: 1 }, "story");
    expect(edited.deployment({ counted: 1 }).problems).toBe("");
    expect(told().deployment({ counted: 1 }).problems).toContain("at rest");
    expect(told().deployment({ counted: 1, note: "x" }).problems).toContain("foreign things");
  });

  it("is removed with its pool, and not when the pool lives or is to leave it", () => {
    const gone = { counted: 1 };
    expect(deleted().deployment(gone, "controller", "DELETED").problems).toBe("");
    expect(told().deployment(gone, "controller", "DELETED").problems).toContain("no pool of it");
    const finalizers = [POOL_FINALIZER, ORPHAN];
    const orphaning = later(told())
      .next("delete")
      .pool({ ...ENDED, finalizers }, "story");
    expect(orphaning.deployment(gone, "controller", "DELETED").problems).toContain("no pool of it");
  });
});

it("what is on nodes follows the pods, and does not stay without any", () => {
  const bare = new Told().node(false, "story");
  expect(bare.node(true).problems).toContain("for no pod");
  expect(later(told()).node(false).problems).toContain("though pods need it");
  expect(told().next("end").pod("DELETED").problems).toContain("in the end, and no pod for it");
});

it("what is on nodes must not come and go while nobody does anything", () => {
  expect(told().next("end").pod("DELETED").node(false).node(true).problems).toContain("flapped");
});

it("what is not Berth's must be made, written and removed by others alone", () => {
  const object = { metadata: { name: "p1" } };
  const pod = told().note(pods, { name: "p1", object, by: "controller" });
  expect(pod.problems).toContain("was written by the controller");
  const removed = told().note(pods, { name: "p1", object, by: "controller", gone: "DELETED" });
  expect(removed.problems).toContain("was DELETED by the controller");
});

describe("what stands in the end", () => {
  const empty = { nodes: [], pods: [], sets: [], pools: [], deployments: [] };
  const told = (state: PoolState, deployment?: DeploymentState): string =>
    unsettledPools({
      ...empty,
      pools: [poolOf(state)],
      deployments: deployment ? [deploymentOf(deployment)] : [],
    }).join("\n");

  it("is a Deployment as its pool wants it, counted, and held", () => {
    expect(told({ replicas: 2 }, { replicas: 2 })).toBe("");
    expect(told({ replicas: 2 }, {})).toContain("the Deployment of pool is");
    expect(told({})).toContain("the Deployment of pool is");
    expect(told({ finalizers: [] }, {})).toContain("is not held");
    expect(told({}, { counted: 1 })).toContain("miscounts");
  });

  it("is nothing of a pool that is deleted, unless it is to leave it", () => {
    expect(told({ isDeleted: true })).toContain("waits for nothing");
    expect(told({ isDeleted: true }, {})).toContain("is left");
    expect(told({ isDeleted: true, finalizers: [POOL_FINALIZER, ORPHAN] }, {})).toBe("");
  });
});
