/**
 * The drop-in for agent-substrate's pull request 134 on the whole product: what it does with nodes and WorkerPools, with the
 * real controllers, in the cases of the contract that no part of it proves alone. Writes are counted in the audit log.
 */
import {
  clusterRoleBindings,
  clusterRoles,
  deployments,
  type KubeObject,
  nodes,
  type Resource,
  roleBindings,
  roles,
} from "@berth/kube";
import { MARKS_ANNOTATION, workerPools } from "@berth/placement";
import { type TestCluster, type TestUser } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { runCommand } from "./command.ts";
import { BERTH, NAMESPACE } from "./fixture.ts";
import { CLAIM, FINALIZER, LABEL, markedBy, marksOf, sharedFullCluster } from "./footprint-cluster.ts";
import { createDropInFixture, createFootprintFixture, type FootprintFixture } from "./footprint-fixture.ts";
import { patiently } from "./patience.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedFullCluster();
});

const dropIn = (name: string): Promise<FootprintFixture> => createDropInFixture(cluster, name);

const ASKING = { nodeSelector: { [LABEL]: "true" } };

describe("nodes under the drop-in for pull request 134", () => {
  it("F-2 F-3 F-4 carry one claim for each pool, written once, until its last pod there is gone", async () => {
    await using fixture = await dropIn("f2");
    await fixture.add("n");
    const [a, b] = [await fixture.pool("a"), await fixture.pool("b")];
    await fixture.bound("a-1", a, "n");
    await fixture.marked("n", a);
    const mark = await cluster.audit.mark();
    await fixture.bound("a-2", a, "n");
    await fixture.settled();
    await fixture.deletePod("a-1");
    await fixture.settled();
    expect(marksOf(await fixture.marked("n", a))).toEqual({ label: "true", claims: [a.uid] });
    expect(await fixture.nodeWrites(mark)).toEqual([]);
    await fixture.bound("b-1", b, "n");
    await fixture.marked("n", a, b);
    await fixture.deletePod("a-2");
    await fixture.marked("n", b);
    expect(await fixture.changes(mark)).toEqual(["patch 200", "patch 200"]);
  });

  it("F-5 F-E18 lose all of it with the last pod, also what the original's field manager had set, and nothing else", async () => {
    await using fixture = await createFootprintFixture(cluster, "f5");
    const a = await fixture.pool("a");
    await fixture.add("n", (it) =>
      it.fake().labelled({ "example.com/l": "stays" }).annotated({ "example.com/a": "stays" }),
    );
    await fixture.bound("a-1", a, "n");
    // What the controllers make of a new node.
    const before = await patiently(async () => {
      const found = await fixture.readNode("n");
      expect(found.metadata?.labels).toHaveProperty(["beta.kubernetes.io/os"]);
      expect(found.metadata?.annotations).toHaveProperty(["node.alpha.kubernetes.io/ttl"]);
      expect(found.spec?.taints).toBeUndefined();
      return found;
    });
    const name = fixture.nodeName("n");
    const ours = { labels: { [LABEL]: "true" }, annotations: { [`${CLAIM}${a.uid}`]: "" } };
    await cluster.client.apply(
      nodes,
      { metadata: { name, ...ours } },
      { fieldManager: "atelet-node-controller", force: true },
    );
    await fixture.start();
    await fixture.settled();
    await fixture.marked("n", a);
    await fixture.deletePod("a-1");
    const after = await fixture.marked("n");
    expect(after.metadata?.labels).toEqual(before.metadata?.labels);
    const { [MARKS_ANNOTATION]: _record, ...annotations } = after.metadata?.annotations ?? {};
    expect(annotations).toEqual(before.metadata?.annotations);
    expect(after.spec).toEqual(before.spec);
    const managers = (after.metadata?.managedFields ?? []).map(({ manager }) => manager);
    expect(managers).not.toContain("atelet-node-controller");
  });

  it("F-8 F-E7 are not made for a pod that names one that is not there, and nothing is tried over and over", async () => {
    await using fixture = await dropIn("f8");
    const a = await fixture.pool("a");
    const mark = await cluster.audit.mark();
    await fixture.bound("a-1", a, "nowhere");
    await fixture.settled();
    const { items } = await cluster.client.list(nodes);
    expect(items.map(({ metadata }) => metadata?.name)).not.toContain(fixture.nodeName("nowhere"));
    const about = (await fixture.requests(mark)).filter(({ name }) => name === fixture.nodeName("nowhere"));
    expect(about).toEqual([]);
  });
});

describe("WorkerPools under the drop-in for pull request 134", () => {
  it("F-9 get the finalizer, and the Deployment of the original with the uid and the wait for the agent", async () => {
    await using fixture = await dropIn("f9");
    const mark = await cluster.audit.mark();
    const a = await fixture.guarded(
      await fixture.pool("a", { replicas: 0, ateomImage: "registry.test/ateom@sha256:1" }),
    );
    const { metadata, spec } = await patiently(() => fixture.deploymentOf(a));
    expect((await fixture.readPool(a)).metadata?.finalizers).toEqual([FINALIZER]);
    expect(metadata?.ownerReferences).toEqual([
      {
        apiVersion: "ate.dev/v1alpha1",
        kind: "WorkerPool",
        name: "a",
        uid: a.uid,
        controller: true,
        blockOwnerDeletion: true,
      },
    ]);
    expect(spec?.replicas).toBe(0);
    expect(spec?.selector).toEqual({ matchLabels: { "ate.dev/worker-pool": "a" } });
    expect(spec?.template.metadata?.labels).toEqual({
      "ate.dev/worker-pool": "a",
      "ate.dev/worker-pool-uid": a.uid,
    });
    expect(spec?.template.spec?.containers[0]).toMatchObject({
      name: "ateom",
      image: "registry.test/ateom@sha256:1",
      args: ["--pod-uid=$(POD_UID)"],
      volumeMounts: [{ name: "run-ateom", mountPath: "/var/lib/ateom-gvisor" }],
    });
    expect(spec?.template.spec?.initContainers).toMatchObject([
      {
        name: "wait-for-atelet",
        image: "busybox:1.36",
        command: ["sh", "-c", 'until nc -z "$HOST_IP" 8085; do sleep 1; done'],
        env: [{ name: "HOST_IP", valueFrom: { fieldRef: { fieldPath: "status.hostIP" } } }],
      },
    ]);
    await fixture.settled();
    const written = (await fixture.writes(mark)).filter(({ name }) => name.startsWith("a"));
    // One patch for the finalizer, one apply.
    expect(written.map(({ resource, verb, code }) => `${resource} ${verb} ${code}`).sort()).toEqual([
      "deployments.apps patch 201",
      "workerpools.ate.dev patch 200",
    ]);
  });

  it("F-10 F-E3 wait for their pods when they are deleted, and are gone with the claims when these are", async () => {
    await using fixture = await dropIn("f10");
    await fixture.add("n");
    const a = await fixture.guarded(await fixture.pool("a", { replicas: 2 }));
    await fixture.spread(a, 2);
    await fixture.marked("n", a);
    await fixture.deletePool(a);
    const ending = await patiently(async () => {
      const found = await fixture.podsOf(a);
      for (const { metadata } of found) expect(metadata?.deletionTimestamp).toBeDefined();
      return found;
    });
    await fixture.settled();
    expect(ending).toHaveLength(2);
    // Nobody can take its name meanwhile (F-E11).
    await expect(fixture.pool("a")).rejects.toMatchObject({ failure: { kind: "alreadyExists" } });
    expect((await fixture.readPool(a)).metadata?.finalizers).toContain(FINALIZER);
    expect(await fixture.marksOf("n")).toEqual(markedBy(a));
    for (const { metadata } of ending) await fixture.deletePod(metadata?.name ?? "");
    await fixture.gone(() => fixture.readPool(a));
    await fixture.marked("n");
  });

  it("F-13 have their Deployment follow, put right and made again, and count its pods", async () => {
    await using fixture = await dropIn("f13");
    await fixture.add("n", (it) => it.fake());
    const selecting = { pool: "x" };
    const a = await fixture.pool("a", { replicas: 2 });
    await patiently(async () => expect((await fixture.readPool(a)).status).toEqual({ replicas: 2 }));
    await fixture.editPool(a, {
      spec: { replicas: 1, ateomImage: "registry.test/ateom:2", template: { nodeSelector: selecting } },
    });
    const followed = async (): Promise<void> =>
      patiently(async () => {
        const { spec } = await fixture.deploymentOf(a);
        const pod = spec?.template.spec;
        expect([spec?.replicas, pod?.containers[0]?.image]).toEqual([1, "registry.test/ateom:2"]);
        expect(pod?.nodeSelector).toMatchObject(selecting);
        expect(pod?.nodeSelector).not.toHaveProperty("rogue");
      });
    await followed();
    const rogue = { spec: { replicas: 7, template: { spec: { nodeSelector: { pool: "y", rogue: "z" } } } } };
    const at = fixture.in("a-deployment");
    await cluster.client.patch(deployments, at, { type: "merge", body: rogue });
    await followed();
    await fixture.editPool(a, { spec: { template: null } });
    await patiently(async () => {
      const { spec } = await fixture.deploymentOf(a);
      expect(spec?.template.spec?.nodeSelector).toBeUndefined();
    });
    const { metadata, spec } = await fixture.deploymentOf(a);
    await cluster.client.delete(deployments, at);
    await fixture.gone(() => fixture.deploymentOf(a), metadata?.uid);
    await patiently(async () => expect((await fixture.deploymentOf(a)).spec).toEqual(spec));
    await patiently(async () => expect((await fixture.readPool(a)).status).toEqual({ replicas: 1 }));
    const body = { spec: { replicas: 2 } };
    await cluster.client.patch(
      workerPools,
      fixture.in("a"),
      { type: "merge", body },
      { subresource: "scale" },
    );
    await patiently(async () => expect((await fixture.readPool(a)).status).toEqual({ replicas: 2 }));
  });
});

describe("the agent under the drop-in for pull request 134", () => {
  it("F-14 runs nowhere on a fresh cluster, which is a finished rollout, and then exactly where ateoms are", async () => {
    await using fixture = await dropIn("f14");
    for (const name of ["n0", "n1", "n2"]) await fixture.add(name, (it) => it.fake());
    await fixture.agent(ASKING);
    // What `kubectl rollout status` waits for.
    await patiently(async () => {
      const { metadata, status } = await fixture.readAgent();
      expect(status?.observedGeneration).toBe(metadata?.generation);
      expect(status?.desiredNumberScheduled).toBe(0);
    });
    const a = await fixture.pool("a", { replicas: 1 });
    const [node = ""] = await fixture.spread(a, 1);
    await fixture.marked(node, a);
    await fixture.agentsOn(node);
    await patiently(async () => {
      const { status } = await fixture.readAgent();
      expect([status?.desiredNumberScheduled, status?.numberReady]).toEqual([1, 1]);
    });
    await fixture.editPool(a, { spec: { replicas: 0 } });
    await fixture.agentsOn();
    await fixture.marked(node);
  });

  it("F-15 leaves idle nodes in the second of two phases, and all of it needs no right but the manifests'", async () => {
    await using fixture = await createFootprintFixture(cluster, "f15");
    await using account = await asInstalled();
    const mark = await cluster.audit.mark();
    for (const name of ["used", "idle"]) await fixture.add(name, (it) => it.fake());
    await fixture.agent();
    await fixture.agentsOn("used", "idle");
    await fixture.start({ user: account.user });
    const a = await fixture.guarded(await fixture.pool("a"));
    // Phase 1: nodes are marked, and the agent runs on everywhere.
    await fixture.create(fixture.pod("a-1", a).on(fixture.nodeName("used")));
    await fixture.marked("used", a);
    await fixture.agentsOn("used", "idle");
    // Phase 2.
    await fixture.editAgent({ spec: { template: { spec: ASKING } } });
    await fixture.agentsOn("used");
    await fixture.deletePool(a);
    await fixture.deletePod("a-1");
    await fixture.gone(() => fixture.readPool(a));
    await fixture.marked("used");
    await fixture.agentsOn();
    const asked = await cluster.audit.entriesSince(mark, { userAgent: BERTH });
    expect(new Set(asked.map(({ user }) => user))).toEqual(new Set([account.user.name]));
    expect(asked.filter(({ code }) => code === 401 || code === 403)).toEqual([]);
  });
});

/** Berth's service account with the roles that `berth manifests --worker-pools` prints, and no other right. */
async function asInstalled(): Promise<AsyncDisposable & { readonly user: TestUser }> {
  const args = [
    "manifests",
    "--worker-pools",
    "--image",
    "registry.test/berth:1",
    "-n",
    NAMESPACE,
    "-o",
    "json",
  ];
  const printed = await runCommand(...args);
  const { items } = JSON.parse(printed) as { readonly items: readonly KubeObject[] };
  const access: readonly Resource[] = [clusterRoles, clusterRoleBindings, roles, roleBindings];
  await using owned = new AsyncDisposableStack();
  for (const object of items) {
    const resource = access.find(({ kind }) => kind === object.kind);
    if (resource === undefined) continue;
    const { name = "", namespace } = object.metadata ?? {};
    const of = { name, ...(namespace !== undefined && { namespace }) };
    await cluster.client.apply(resource, object);
    owned.defer(() => cluster.client.delete(resource, of));
  }
  const name = `system:serviceaccount:${NAMESPACE}:berth`;
  const user = await cluster.user(name, ["system:serviceaccounts", "system:authenticated"]);
  const stack = owned.move();
  return { user, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}
