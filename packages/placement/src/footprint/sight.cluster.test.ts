/** What footprints see of a real cluster, with the controllers that make pods, bind claims and collect garbage. */
import {
  type CustomResourceDefinition,
  clusterRoleBindings,
  clusterRoles,
  customResourceDefinitions,
  type Deployment,
  defineResource,
  deployments,
  type KubeObject,
  namespaces,
  nodes,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type Resource,
  replicaSets,
  serviceAccounts,
} from "@berth/kube";
import { clusterName, createSilentLogger, systemClock } from "@berth/runtime";
import { aNode, aPod, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import type { Footprint, NeedingPods } from "./footprint.ts";
import { createFootprintSight, type FootprintWatches } from "./sight.ts";
import { plainFootprint } from "./testing/footprints.ts";

const POOL = { group: "footprint.test", kind: "Pool" };
const poolResource: Resource = defineResource({
  ...POOL,
  version: "v1",
  plural: "pools",
  namespaced: true,
});
const poolDefinition: CustomResourceDefinition = {
  metadata: { name: "pools.footprint.test" },
  spec: {
    group: POOL.group,
    names: { kind: POOL.kind, plural: "pools" },
    scope: "Namespaced",
    versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object" } } }],
  },
};

let cluster: TestCluster;
let count = 0;

beforeAll(async () => {
  cluster = await sharedTestCluster({ with: ["controller-manager"] });
  // Pods of nodes that are not there are taken away by the garbage collector of pods.
  for (const name of ["n1", "n2"]) await cluster.client.create(nodes, aNode(name).build());
});

function aFootprint(id: string, workload: Partial<NeedingPods>, init: Partial<Footprint> = {}): Footprint {
  return plainFootprint(id, { podSelector: { matchLabels: { app: id } }, ...workload }, init);
}

interface Setup extends AsyncDisposable {
  readonly id: string;
  readonly watches: FootprintWatches;
  /** Nodes told of. */
  readonly told: Set<string>;
  /** Nodes of pods whose owners have become known. */
  readonly known: Set<string>;
  /** Namespaces told of. */
  /** How often something was another in a namespace. */
  readonly near: { namespaces: number };
  /** Where need may be another. */
  problem(): string | undefined;
}

async function setUp(user?: string): Promise<Setup> {
  const id = `sight-${++count}`;
  await cluster.client.create(namespaces, { metadata: { name: id, labels: { team: "a" } } });
  // Until the controller manager has made it, every pod of the namespace is refused.
  await eventually(() => cluster.client.get(serviceAccounts, { namespace: id, name: "default" }));
  const client = cluster.connect({
    userAgent: id,
    ...(user !== undefined && { user: await cluster.user(user) }),
  });
  const told = new Set<string>();
  const near = { namespaces: 0 };
  const known = new Set<string>();
  const watches = createFootprintSight({
    client,
    cluster: clusterName("test"),
    clock: systemClock,
    log: createSilentLogger(),
    daemonSets: { daemonSet: () => null, want: () => {} },
    onNode: (node) => void told.add(node),
    onEverything: () => {},
    onOwners: ({ spec }) => void known.add(spec?.nodeName ?? ""),
    onNamespace: () => near.namespaces++,
  });
  const stopping = new AbortController();
  const running = await Promise.all(watches.components.map((part) => part.start(stopping.signal)));
  return {
    id,
    watches,
    told,
    known,
    near,
    problem: () => watches.components.map((part) => part.problem?.()).find((it) => it !== undefined),
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await Promise.all(running.map(({ ended }) => ended));
      await client.close();
    },
  };
}

function aDeployment(id: string, owner?: KubeObject): Deployment {
  const { name = "", uid = "" } = owner?.metadata ?? {};
  const reference = { apiVersion: "footprint.test/v1", kind: POOL.kind, name, uid, controller: true };
  return {
    metadata: { namespace: id, name: "web", ...(owner && { ownerReferences: [reference] }) },
    spec: {
      replicas: 2,
      selector: { matchLabels: { app: id } },
      template: {
        metadata: { labels: { app: id } },
        spec: { containers: [{ name: "main", image: "registry.test/app:1" }] },
      },
    },
  };
}

/** With a node each, as no scheduler runs. */
async function bind(namespace: string, pod: Pod, node: string): Promise<void> {
  const name = pod.metadata?.name ?? "";
  const binding = {
    apiVersion: "v1",
    kind: "Binding",
    metadata: { name },
    target: { kind: "Node", name: node },
  };
  await cluster.client.create(pods, binding, { namespace, name, subresource: "binding" });
}

async function podsOfDeployment(namespace: string): Promise<readonly [Pod, Pod]> {
  return eventually(async () => {
    const [one, two] = (await cluster.client.list(pods, { namespace })).items;
    if (one === undefined || two === undefined) throw new Error("the Deployment has no two pods yet");
    return [one, two] as const;
  });
}

describe("the owners of a real Deployment's pods", () => {
  it("F-B10 are read once for both, without their labels being touched, up to a kind of one's own", async () => {
    await using setup = await setUp();
    const { id, watches, told, known } = setup;
    await cluster.client.create(customResourceDefinitions, poolDefinition);
    const pool = await eventually(() =>
      cluster.client.create(poolResource, { metadata: { namespace: id, name: "pool" } }),
    );
    await cluster.client.create(deployments, aDeployment(id, pool));
    const both = await podsOfDeployment(id);
    await bind(id, both[0], "n1");
    await bind(id, both[1], "n2");
    const footprint = aFootprint(id, {}, { grouping: { by: "OwnerUID", owner: POOL } });
    watches.want([footprint]);
    const seen = await eventually(() => {
      const found = ["n1", "n2"].flatMap((node) => watches.sight.pods(footprint, node) ?? []);
      expect(found).toHaveLength(2);
      return found;
    });
    const mark = await cluster.audit.mark();
    expect(seen.map((pod) => watches.sight.owners(pod))).toEqual([undefined, undefined]);
    await eventually(() => expect(told).toEqual(new Set(["n1", "n2"])));
    expect(known).toEqual(told);
    const [replicaSet] = (await cluster.client.list(replicaSets, { namespace: id })).items;
    const deployment = await cluster.client.get(deployments, { namespace: id, name: "web" });
    for (const pod of seen)
      expect(watches.sight.owners(pod)).toEqual([
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
    await cluster.client.create(deployments, aDeployment(id));
    const [pod] = await podsOfDeployment(id);
    await bind(id, pod, "n1");
    const owner = { group: "apps", kind: "Deployment" };
    const footprint = aFootprint(id, {}, { grouping: { by: "OwnerUID", owner } });
    watches.want([footprint]);
    const owners = (): unknown => {
      const [seen] = watches.sight.pods(footprint, "n1") ?? [];
      return seen && watches.sight.owners(seen)?.map(({ kind }) => kind);
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
    const driver = (claim: string): unknown => watches.sight.driverOfClaim(id, claim);
    expect(driver("data")).toBeUndefined();
    watches.want([footprint]);
    await eventually(() => expect(driver("data")).toBeNull());
    await eventually(() => expect(watches.sight.pods(footprint, "n1")).toHaveLength(1));
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
    const team = (): unknown => watches.sight.namespaceLabels(id)?.["team"];
    watches.want([aFootprint(id, {})]);
    expect(watches.sight.namespaceLabels(id)).toBeUndefined();
    const footprint = aFootprint(id, { namespaceSelector: { matchLabels: { team: "b" } } });
    watches.want([footprint]);
    await eventually(() => expect(team()).toBe("a"));
    await eventually(() => expect(watches.sight.pods(footprint, "n1")).toHaveLength(1));
    expect(watches.sight.namespaceLabels("no-such-namespace")).toBeNull();
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
