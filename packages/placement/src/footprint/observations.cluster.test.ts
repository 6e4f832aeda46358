/** What footprints see of a real cluster, with the controllers that make pods, bind claims and collect garbage. */
import {
  clusterRoleBindings,
  clusterRoles,
  customResourceDefinitions,
  deployments,
  namespaces,
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  replicaSets,
} from "@berth/kube";
import { aNode, aPod, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import {
  footprintByApp as aFootprint,
  bindPod,
  POOL,
  poolDefinition,
  poolResource,
  startObservations,
  webOf,
} from "./testing/observations-run.ts";

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await sharedTestCluster({ with: ["controller-manager"] });
  // Pods of nodes that are not there are taken away by the garbage collector of pods.
  for (const name of ["n1", "n2"]) await cluster.client.create(nodes, aNode(name).build());
});

const setUp = (user?: string): ReturnType<typeof startObservations> => startObservations(cluster, user);

describe("the owners of a real Deployment's pods", () => {
  it("F-B10 are read once for both, without their labels being touched, up to a kind of one's own", async () => {
    await using setup = await setUp();
    const { id, watches, told, known } = setup;
    await cluster.client.create(customResourceDefinitions, poolDefinition);
    const pool = await eventually(() =>
      cluster.client.create(poolResource, { metadata: { namespace: id, name: "pool" } }),
    );
    const both = await webOf(cluster, id, pool);
    await bindPod(cluster, both[0], "n1");
    await bindPod(cluster, both[1], "n2");
    const footprint = aFootprint(id, {}, { grouping: { by: "OwnerUID", owner: POOL } });
    watches.want([footprint]);
    const seen = await eventually(() => {
      const found = ["n1", "n2"].flatMap((node) => watches.observations.pods(footprint, node) ?? []);
      expect(found).toHaveLength(2);
      return found;
    });
    const mark = await cluster.audit.mark();
    expect(seen.map((pod) => watches.observations.owners(pod))).toEqual([undefined, undefined]);
    await eventually(() => expect(told).toEqual(new Set(["n1", "n2"])));
    expect(known).toEqual(told);
    const [replicaSet] = (await cluster.client.list(replicaSets, { namespace: id })).items;
    const deployment = await cluster.client.get(deployments, { namespace: id, name: "web" });
    for (const pod of seen)
      expect(watches.observations.owners(pod)).toEqual([
        {
          group: "apps",
          kind: "ReplicaSet",
          resource: "replicasets",
          name: replicaSet?.metadata?.name,
          uid: replicaSet?.metadata?.uid,
        },
        {
          group: "apps",
          kind: "Deployment",
          resource: "deployments",
          name: "web",
          uid: deployment.metadata?.uid,
        },
        { ...POOL, resource: "pools", name: "pool", uid: pool.metadata?.uid },
      ]);
    const gets = { verb: "get", userAgent: id };
    for (const resource of ["replicasets.apps", "deployments.apps", "pools.footprint.test"])
      expect(await cluster.audit.countSince(mark, { ...gets, resource })).toBe(1);
    expect(setup.problem()).toBeUndefined();
  });

  it("stay unknown without the right to read one of them, which is named", async () => {
    const user = "footprint-onlooker";
    const apiGroup = "rbac.authorization.k8s.io";
    const grant = async (
      name: string,
      apiGroups: readonly string[],
      resources: readonly string[],
    ): Promise<void> => {
      const rules = [{ apiGroups, resources, verbs: ["get", "list", "watch"] }];
      await cluster.client.create(clusterRoles, { metadata: { name }, rules });
      await cluster.client.create(clusterRoleBindings, {
        metadata: { name },
        roleRef: { apiGroup, kind: "ClusterRole", name },
        subjects: [{ apiGroup, kind: "User", name: user }],
      });
    };
    await grant("footprint-pods", [""], ["pods"]);
    await grant("footprint-sets", ["apps"], ["replicasets"]);
    await using setup = await setUp(user);
    const { id, watches } = setup;
    const [pod] = await webOf(cluster, id);
    await bindPod(cluster, pod, "n1");
    const owner = { group: "apps", kind: "Deployment" };
    const footprint = aFootprint(id, {}, { grouping: { by: "OwnerUID", owner } });
    watches.want([footprint]);
    const owners = (): unknown => {
      const [seen] = watches.observations.pods(footprint, "n1") ?? [];
      return seen && watches.observations.owners(seen)?.map(({ kind }) => kind);
    };
    await eventually(() => {
      expect(owners()).toBeUndefined();
      expect(watches.whyUnread(footprint)).toMatch(/^get deployments.apps "web" in ".*forbidden/s);
    });
  });
});

describe("the CSI drivers of claims", () => {
  it("are those of the volumes behind them, and their pods' nodes are told, and for waits the claim", async () => {
    await using setup = await setUp();
    const { id, watches, told } = setup;
    const capacity = { storage: "1Gi" };
    const accessModes = ["ReadWriteMany"];
    const spec = { accessModes, resources: { requests: capacity }, storageClassName: "" };
    for (const name of ["data", "lost"])
      await cluster.client.create(persistentVolumeClaims, {
        metadata: { namespace: id, name },
        spec: { ...spec, volumeName: `${id}-${name}` },
      });
    const volumes = [{ name: "data", persistentVolumeClaim: { claimName: "data" } }];
    await cluster.client.create(
      pods,
      aPod("user")
        .in(id)
        .on("n1")
        .labelled({ app: id })
        .with((pod) => ({ ...pod, spec: { containers: [], ...pod.spec, volumes } }))
        .build(),
    );
    const footprint = aFootprint(id, { csiDrivers: ["efs.csi.aws.com"] });
    const driver = (claim: string): unknown => watches.observations.driverOfClaim(id, claim);
    expect(driver("data")).toBeUndefined();
    watches.want([footprint]);
    await eventually(() => expect(driver("data")).toBeNull());
    await eventually(() => expect(watches.observations.pods(footprint, "n1")).toHaveLength(1));
    told.clear();
    await cluster.client.create(persistentVolumes, {
      metadata: { name: `${id}-data` },
      spec: { accessModes, capacity, csi: { driver: "efs.csi.aws.com", volumeHandle: "fs-1" } },
    });
    await eventually(() =>
      expect([driver("data"), driver("lost"), driver("none")]).toEqual(["efs.csi.aws.com", null, null]),
    );
    await eventually(() => expect(told).toContain("n1"));
    watches.want([aFootprint(id, {})]);
    expect(driver("data")).toBeUndefined();
  });
});

describe("the labels of namespaces", () => {
  it("are read only when a footprint asks for them; the nodes of their pods are told, and so are holds and waits", async () => {
    await using setup = await setUp();
    const { id, watches, told, near } = setup;
    await cluster.client.create(pods, aPod("user").in(id).on("n1").labelled({ app: id }).build());
    const team = (): unknown => watches.observations.namespaceLabels(id)?.["team"];
    watches.want([aFootprint(id, {})]);
    expect(watches.observations.namespaceLabels(id)).toBeUndefined();
    const footprint = aFootprint(id, { namespaceSelector: { matchLabels: { team: "b" } } });
    watches.want([footprint]);
    await eventually(() => expect(team()).toBe("a"));
    await eventually(() => expect(watches.observations.pods(footprint, "n1")).toHaveLength(1));
    expect(watches.observations.namespaceLabels("no-such-namespace")).toBeNull();
    told.clear();
    near.namespaces = 0;
    const body = { metadata: { labels: { team: "b" } } };
    await cluster.client.patch(namespaces, { name: id }, { type: "merge", body });
    await eventually(() => expect(team()).toBe("b"));
    expect(told).toEqual(new Set(["n1"]));
    expect(near.namespaces).toBeGreaterThan(0);
    expect(watches.podsOf(footprint, { namespace: id })).toHaveLength(1);
    expect(watches.podsOf(footprint, { namespace: "default" })).toEqual([]);
  });
});
