/** WorkerPools with the real API server, Deployment controller and garbage collector. No footprint, and so no finalizer. */
import { type Deployment, deployments, pods } from "@berth/kube";
import {
  type AuditEntry,
  type AuditMark,
  eventually,
  sharedTestCluster,
  type TestCluster,
} from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { PR_134_POOLS, type WorkerPoolConfig } from "./deployment.ts";
import { workerPools } from "./resource.ts";
import {
  AGENT,
  aPool,
  counts,
  GARBAGE,
  gone,
  installPools,
  observed,
  restingPool,
  startPools,
} from "./testing/pool-world.ts";

const MAIN: WorkerPoolConfig = { workerPoolUid: false };

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await sharedTestCluster({ with: ["controller-manager"] });
  await installPools(cluster);
  await eventually(() => cluster.client.list(workerPools));
  // The garbage collector looks for new kinds when it starts, and then every 30 s.
  await cluster.stopComponent("kube-controller-manager", "SIGKILL");
  await cluster.startComponent("kube-controller-manager");
});

const templateOf = ({ spec }: Deployment) => spec?.template.spec;
const replicasOf = ({ spec }: Deployment) => spec?.replicas;

/** What the controller has written since then. */
async function writesSince(mark: AuditMark): Promise<readonly AuditEntry[]> {
  const entries = await cluster.audit.entriesSince(mark, { userAgent: AGENT });
  return entries.filter(({ verb }) => !["get", "list", "watch"].includes(verb));
}

describe("the Deployment of a pool", () => {
  it("F-9 is the original's, with the uid of the pool and the wait for the agent", async () => {
    await using _run = await startPools(cluster, PR_134_POOLS);
    const pool = await aPool(cluster, "pools-9");
    const { metadata } = await pool.create({ replicas: 2, ateomImage: "registry.test/ateom@sha256:1" });
    const { metadata: stored, spec } = await pool.settled(() => undefined);
    const uid = metadata?.uid ?? "";
    expect(stored?.labels).toBeUndefined();
    expect(stored?.ownerReferences).toEqual([
      {
        apiVersion: "ate.dev/v1alpha1",
        kind: "WorkerPool",
        name: "pool",
        uid,
        controller: true,
        blockOwnerDeletion: true,
      },
    ]);
    expect(spec?.replicas).toBe(2);
    expect(spec?.selector).toEqual({ matchLabels: { "ate.dev/worker-pool": "pool" } });
    expect(spec?.strategy).toEqual({
      type: "RollingUpdate",
      rollingUpdate: { maxUnavailable: "25%", maxSurge: "25%" },
    });
    expect(spec?.template.metadata?.labels).toEqual({
      "ate.dev/worker-pool": "pool",
      "ate.dev/worker-pool-uid": uid,
    });
    const defaults = {
      terminationMessagePath: "/dev/termination-log",
      terminationMessagePolicy: "File",
      imagePullPolicy: "IfNotPresent",
      resources: {},
    };
    const env = (name: string, fieldPath: string) => [
      { name, valueFrom: { fieldRef: { apiVersion: "v1", fieldPath } } },
    ];
    expect(spec?.template.spec).toEqual({
      securityContext: { runAsUser: 0, runAsGroup: 0 },
      affinity: {},
      restartPolicy: "Always",
      terminationGracePeriodSeconds: 30,
      dnsPolicy: "ClusterFirst",
      schedulerName: "default-scheduler",
      initContainers: [
        {
          ...defaults,
          name: "wait-for-atelet",
          image: "busybox:1.36",
          command: ["sh", "-c", 'until nc -z "$HOST_IP" 8085; do sleep 1; done'],
          env: env("HOST_IP", "status.hostIP"),
        },
      ],
      containers: [
        {
          ...defaults,
          name: "ateom",
          image: "registry.test/ateom@sha256:1",
          args: ["--pod-uid=$(POD_UID)"],
          env: env("POD_UID", "metadata.uid"),
          securityContext: { privileged: true, runAsUser: 0, runAsGroup: 0 },
          volumeMounts: [{ name: "run-ateom", mountPath: "/var/lib/ateom-gvisor" }],
        },
      ],
      volumes: [
        { name: "run-ateom", hostPath: { path: "/var/lib/ateom-gvisor", type: "DirectoryOrCreate" } },
      ],
    });
  });

  it("F-13 follows the pool's replicas, image and template, and status.replicas follows it", async () => {
    await using _run = await startPools(cluster, MAIN);
    const pool = await restingPool(cluster, "pools-13", 2);
    for (const replicas of [3, 1]) {
      await pool.edit({ replicas });
      await pool.settled((it) => expect(replicasOf(it)).toBe(replicas));
      await counts(pool, replicas);
    }
    await pool.edit({ ateomImage: "registry.test/ateom:2" });
    await pool.settled((it) => expect(templateOf(it)?.containers[0]?.image).toBe("registry.test/ateom:2"));
    const template = {
      nodeSelector: { pool: "a" },
      tolerations: [{ key: "k", operator: "Exists" }],
      priorityClassName: "system-node-critical",
      nodeAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: {
          nodeSelectorTerms: [{ matchExpressions: [{ key: "zone", operator: "In", values: ["z"] }] }],
        },
      },
      resources: { requests: { cpu: "1000m", memory: "64Mi" }, limits: { memory: "128Mi" } },
    };
    await pool.edit({ template });
    await pool.settled((it) => {
      const { nodeSelector, tolerations, priorityClassName, affinity, containers } = templateOf(it) ?? {
        containers: [],
      };
      expect({ nodeSelector, tolerations, priorityClassName }).toEqual({
        nodeSelector: { pool: "a" },
        tolerations: [{ key: "k", operator: "Exists" }],
        priorityClassName: "system-node-critical",
      });
      expect(affinity).toEqual({ nodeAffinity: template.nodeAffinity });
      expect(containers[0]?.resources).toEqual({
        requests: { cpu: "1", memory: "64Mi" },
        limits: { memory: "128Mi" },
      });
    });
  });

  it("F-13 loses what the template no longer has, field by field and all at once", async () => {
    await using _run = await startPools(cluster, MAIN);
    const pool = await aPool(cluster, "pools-13-clear");
    const full = {
      nodeSelector: { pool: "a" },
      tolerations: [{ key: "k", operator: "Exists" }],
      priorityClassName: "system-node-critical",
      nodeAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [
          { weight: 1, preference: { matchExpressions: [{ key: "zone", operator: "Exists" }] } },
        ],
      },
      resources: { requests: { cpu: "1" } },
    };
    await pool.create({ template: full });
    await pool.settled((it) => expect(templateOf(it)?.nodeSelector).toEqual({ pool: "a" }));
    await pool.edit({ template: { nodeSelector: null, resources: { requests: null } } });
    await pool.settled((it) => {
      expect(templateOf(it)?.nodeSelector).toBeUndefined();
      expect(templateOf(it)?.containers[0]?.resources).toEqual({});
      expect(templateOf(it)?.tolerations).toEqual(full.tolerations);
    });
    await pool.edit({ template: null });
    await pool.settled((it) => {
      const spec = templateOf(it);
      expect(spec?.tolerations).toBeUndefined();
      expect(spec?.priorityClassName).toBeUndefined();
      // Pruned to nothing, or to an empty struct: which one is the server's own affair.
      expect(spec?.affinity ?? {}).toEqual({});
    });
  });

  it("F-13 is put right when somebody edits replicas, node selector, image or owner", async () => {
    await using _run = await startPools(cluster, PR_134_POOLS);
    const pool = await aPool(cluster, "pools-13-rogue");
    await pool.create({ template: { nodeSelector: { pool: "a" } } });
    const before = await pool.settled(() => undefined);
    await pool.editDeployment({
      spec: { replicas: 7, template: { spec: { nodeSelector: { pool: null, rogue: "b" } } } },
    });
    await pool.settled((it) => {
      expect(replicasOf(it)).toBe(1);
      expect(templateOf(it)?.nodeSelector).toEqual({ pool: "a" });
    });
    await pool.editDeployment({ metadata: { ownerReferences: null } });
    await pool.settled((it) =>
      expect(it.metadata?.ownerReferences).toEqual(before.metadata?.ownerReferences),
    );
    const after = await pool.deployment();
    expect([after.metadata?.uid, after.spec]).toEqual([before.metadata?.uid, before.spec]);
  });

  it("F-13 is made again when it is deleted", async () => {
    await using _run = await startPools(cluster, MAIN);
    const pool = await restingPool(cluster, "pools-13-deleted");
    const before = await pool.deployment();
    await cluster.client.delete(deployments, pool.deploymentName);
    const after = await pool.settled(({ metadata }) => expect(metadata?.uid).not.toBe(before.metadata?.uid));
    expect(after.spec).toEqual(before.spec);
  });

  it("asks for nodes and devices of microvm beside what the template says", async () => {
    await using _run = await startPools(cluster, MAIN);
    const pool = await aPool(cluster, "pools-microvm");
    const tolerations = [{ key: "k", operator: "Exists" }];
    await pool.create({
      sandboxClass: "microvm",
      template: { nodeSelector: { pool: "a" }, tolerations },
    });
    const spec = templateOf(await pool.settled(() => undefined));
    expect(spec?.nodeSelector).toEqual({ pool: "a", "ate.dev/sandboxClass": "microvm" });
    expect(spec?.tolerations).toEqual([
      ...tolerations,
      { key: "ate.dev/sandboxClass", operator: "Equal", value: "microvm", effect: "NoSchedule" },
    ]);
    expect(spec?.containers[0]?.volumeMounts?.[1]).toEqual({ name: "dev-kvm", mountPath: "/dev/kvm" });
    expect(spec?.volumes?.[1]).toEqual({
      name: "dev-kvm",
      hostPath: { path: "/dev/kvm", type: "CharDevice" },
    });
  });

  it("is scaled by the scale subresource", async () => {
    await using _run = await startPools(cluster, MAIN);
    const pool = await restingPool(cluster, "pools-scale");
    const body = { spec: { replicas: 2 } };
    await cluster.client.patch(workerPools, pool.of, { type: "merge", body }, { subresource: "scale" });
    await eventually(async () => {
      const scale = await cluster.client.get(workerPools, pool.of, { subresource: "scale" });
      expect(scale).toMatchObject({ kind: "Scale", spec: { replicas: 2 }, status: { replicas: 2 } });
    });
  });
});

describe("writes", () => {
  it("are one apply for a new pool, one for a change, and none at rest or after a restart", async () => {
    await using first = await startPools(cluster, PR_134_POOLS);
    const start = await cluster.audit.mark();
    const pool = await restingPool(cluster, "pools-writes", 2);
    const { namespace } = pool.of;
    const made = (await writesSince(start)).filter((entry) => entry.namespace === namespace);
    expect(made.filter(({ resource }) => resource === "deployments.apps")).toHaveLength(1);
    expect(made.every(({ code }) => code < 300)).toBe(true);
    // Of the status one for each number that it had: 0 is not written.
    expect(made.filter(({ subresource }) => subresource === "status").length).toBeLessThanOrEqual(2);

    const rest = await cluster.audit.mark();
    await pool.editDeployment({ metadata: { labels: { theirs: "x" } }, spec: { minReadySeconds: 1 } });
    await observed(pool);
    await first[Symbol.asyncDispose]();
    await using _second = await startPools(cluster, PR_134_POOLS);
    // What is asked for now is done after all that was there at the start.
    const other = await restingPool(cluster, "pools-writes-other");
    const writes = await writesSince(rest);
    expect(writes.filter((entry) => entry.namespace === namespace)).toEqual([]);
    expect(writes.some((entry) => entry.namespace === other.of.namespace)).toBe(true);
  });

  it("F-E18 of two controllers converge, and do not undo each other's", async () => {
    await using _one = await startPools(cluster, MAIN);
    await using _two = await startPools(cluster, MAIN);
    const mark = await cluster.audit.mark();
    const pool = await restingPool(cluster, "pools-two");
    await pool.edit({ replicas: 2 });
    await counts(pool, 2);
    const applied = (await writesSince(mark)).filter(
      ({ resource, namespace }) => resource === "deployments.apps" && namespace === "pools-two",
    );
    expect(applied.length).toBeLessThanOrEqual(4);
    expect(await pool.settled(() => undefined)).toMatchObject({ metadata: { generation: 2 } });
  });

  it("F-E14 leave the workers of the original alone until the uid is asked for", async () => {
    await using run = await startPools(cluster, MAIN);
    const pool = await restingPool(cluster, "pools-14");
    const { metadata: before } = await pool.deployment();
    run.configure(undefined);
    run.configure(MAIN);
    const other = await restingPool(cluster, "pools-14-other");
    expect((await pool.deployment()).metadata?.generation).toBe(before?.generation);
    run.configure({ workerPoolUid: true });
    const uid = (await pool.read()).metadata?.uid;
    await pool.settled(({ spec }) =>
      expect(spec?.template.metadata?.labels).toMatchObject({ "ate.dev/worker-pool-uid": uid }),
    );
    await other.settled(({ metadata }) => expect(metadata?.generation).toBe(2));
  });
});

describe("the deletion of a pool", () => {
  it("F-11 F-E13 completes when nothing ran yet, and leaves nothing", async () => {
    await using _run = await startPools(cluster, PR_134_POOLS);
    const pool = await aPool(cluster, "pools-11");
    await pool.create();
    await pool.delete();
    await expect(pool.read()).rejects.toMatchObject({ failure: { kind: "notFound" } });
    await gone(() => pool.deployment());
  });

  it.each(["Background", "Foreground"] as const)(
    "F-B1 F-E1 takes Deployment and pods along: %s",
    async (how) => {
      await using _run = await startPools(cluster, PR_134_POOLS);
      const pool = await restingPool(cluster, `pools-${how.toLowerCase()}`);
      const mark = await cluster.audit.mark();
      await pool.delete(how);
      await gone(() => pool.read());
      await gone(() => pool.deployment());
      const { namespace } = pool.of;
      await eventually(
        async () => expect((await cluster.client.list(pods, { namespace })).items).toEqual([]),
        GARBAGE,
      );
      expect((await writesSince(mark)).filter((entry) => entry.namespace === namespace)).toEqual([]);
    },
  );

  it("F-E1 brings nothing back while somebody's finalizer holds the pool", async () => {
    await using _run = await startPools(cluster, PR_134_POOLS);
    const pool = await restingPool(cluster, "pools-held");
    const finalizers = (names: readonly string[]) => ({ metadata: { finalizers: names } });
    const patch = (body: object) => cluster.client.patch(workerPools, pool.of, { type: "merge", body });
    await patch(finalizers(["example.com/hold"]));
    const mark = await cluster.audit.mark();
    await pool.delete();
    await cluster.client.delete(deployments, pool.deploymentName);
    await eventually(() => gone(() => pool.deployment()));
    // What is asked for now is done after what these deletions have brought about.
    const other = await restingPool(cluster, "pools-held-other");
    await patch({ spec: { replicas: 5 } });
    await other.edit({ replicas: 2 });
    await counts(other, 2);
    await expect(pool.deployment()).rejects.toMatchObject({ failure: { kind: "notFound" } });
    const writes = await writesSince(mark);
    expect(writes.filter(({ namespace }) => namespace === pool.of.namespace)).toEqual([]);
    await patch(finalizers([]));
    await expect(pool.read()).rejects.toMatchObject({ failure: { kind: "notFound" } });
  });

  it("F-B1 F-E11 by orphan cascade leaves the Deployment to nobody, and a new pool of the name takes it over", async () => {
    await using _run = await startPools(cluster, PR_134_POOLS);
    const pool = await restingPool(cluster, "pools-orphan");
    const before = await pool.deployment();
    await pool.delete("Orphan");
    await gone(() => pool.read());
    const orphan = await pool.deployment();
    expect([orphan.metadata?.uid, orphan.metadata?.ownerReferences, orphan.spec]).toEqual([
      before.metadata?.uid,
      undefined,
      before.spec,
    ]);
    const { metadata } = await pool.create();
    const taken = await pool.settled((it) =>
      expect(it.metadata?.ownerReferences?.map(({ uid }) => uid)).toEqual([metadata?.uid]),
    );
    expect(taken.metadata?.uid).toBe(before.metadata?.uid);
    expect(taken.spec?.template.metadata?.labels?.["ate.dev/worker-pool-uid"]).toBe(metadata?.uid);
  });
});
