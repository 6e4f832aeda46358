/** Which pods arrive from a real API server for footprints, what is kept of them, and whom changes wake. */
import { pods } from "@berth/kube";
import { aPod, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { nodeOf } from "../node/pod-nodes.ts";
import type { Footprint, NeedingPods } from "./footprint.ts";
import { type Answer, podNeeds } from "./needs.ts";
import { type FootprintViews, podsIn } from "./reads.ts";
import { sightOf } from "./testing/pods.ts";
import { footprintByKey as aFootprint, anAteom, startPods, withGpu } from "./testing/pods-run.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedTestCluster();
});
const nodesBy = ({ pods: found }: FootprintViews, index: string, value: string): ReadonlySet<string> =>
  new Set(found.byIndex(index, value).flatMap(nodeOf));
const setUp = (): ReturnType<typeof startPods> => startPods(cluster);

describe("the pods of a footprint", () => {
  it("F-B7 are all that is received among 300 others, slim, and unbound ones not at all", async () => {
    await using setup = await setUp();
    const { id, views, received, names } = setup;
    const left = Array.from({ length: 300 }, (_, at) => aPod(`foreign-${at}`).on("n1").realistic()).values();
    const createEach = async (): Promise<void> => {
      for (const pod of left) await setup.create(pod);
    };
    await Promise.all(Array.from({ length: 8 }, createEach));
    const { metadata } = await setup.create(
      anAteom(id, "p1", "n1")
        .ownedBy("ReplicaSet", "web-1")
        .annotated({ huge: "x".repeat(1_000) })
        .realistic(),
    );
    const unbound = aPod("unbound").labelled({ [id]: "a" });
    await setup.create(unbound);
    const footprint = aFootprint(id);
    expect(podsIn(views.pods, footprint, { node: "n1" })).toBeUndefined();
    views.want([footprint]);
    await eventually(() => expect(names(footprint, "n1")).toEqual(["p1"]));
    expect(received).toEqual(["p1"]);
    expect(podsIn(views.pods, footprint, { node: "n1" })).toEqual([
      {
        apiVersion: "v1",
        kind: "Pod",
        metadata: {
          name: "p1",
          namespace: id,
          uid: metadata?.uid,
          resourceVersion: metadata?.resourceVersion,
          ownerReferences: metadata?.ownerReferences,
          labels: metadata?.labels,
        },
        spec: { nodeName: "n1" },
        status: { phase: "Pending" },
      },
    ]);
    const body = {
      apiVersion: "v1",
      kind: "Binding",
      metadata: { name: "unbound" },
      target: { kind: "Node", name: "n2" },
    };
    await cluster.client.create(pods, body, {
      namespace: id,
      name: "unbound",
      subresource: "binding",
    });
    await eventually(() => expect(names(footprint, "n2")).toEqual(["unbound"]));
    expect(setup.told).toEqual(["n2"]);
  });

  it("F-1 are known before they are bound where the footprint holds owners", async () => {
    await using setup = await setUp();
    const { id, views } = setup;
    const resource = { group: "ate.dev", version: "v1alpha1", resource: "workerpools" };
    const hold = { resource, finalizer: "a/b", onDelete: "Wait", ownedResources: [] } as const;
    const [holding, plain] = [aFootprint(id, {}, { hold }), aFootprint(id)];
    await setup.create(aPod("unbound").labelled({ [id]: "a" }));
    await setup.create(anAteom(id, "bound", "n1"));
    views.want([holding, plain]);
    const all = (of: Footprint): readonly string[] | undefined =>
      podsIn(views.pods, of)
        ?.map(({ metadata }) => metadata?.name ?? "")
        .toSorted();
    await eventually(() => expect([all(holding), all(plain)]).toEqual([["bound", "unbound"], ["bound"]]));
  });

  it("F-E4 leave when they end, F-E6 or lose their label, and their node is told", async () => {
    await using setup = await setUp();
    const { id, views, told, names } = setup;
    for (const [name, node] of [
      ["p1", "n1"],
      ["p2", "n2"],
      ["p3", "n3"],
    ] as const)
      await setup.create(anAteom(id, name, node));
    const [footprint, strict] = [aFootprint(id), aFootprint(id, { ignorePhases: new Set() })];
    views.want([footprint, strict]);
    await eventually(() => expect([names(footprint, "n3"), names(strict, "n3")]).toEqual([["p3"], ["p3"]]));
    told.length = 0;
    await setup.patch("p1", { status: { phase: "Failed" } }, "status");
    await setup.patch("p2", { metadata: { labels: { [id]: null } } });
    await eventually(() => expect(new Set(told)).toEqual(new Set(["n1", "n2"])));
    await eventually(() => expect([names(footprint, "n1"), names(footprint, "n2")]).toEqual([[], []]));
    await eventually(() => expect([names(strict, "n1"), names(strict, "n2")]).toEqual([["p1"], []]));
  });

  it("wake nobody when what is not read of them changes", async () => {
    await using setup = await setUp();
    const { id, views, told, names } = setup;
    await setup.create(anAteom(id, "p1", "n1"));
    await setup.create(anAteom(id, "p2", "n2"));
    const footprint = aFootprint(id, {}, { grouping: { by: "PodLabel", label: "pool" } });
    views.want([footprint]);
    await eventually(() => expect(names(footprint, "n1")).toEqual(["p1"]));
    await setup.patch("p1", { metadata: { annotations: { a: "b" } } });
    await setup.patch("p1", { status: { podIP: "10.0.0.9" } }, "status");
    await setup.patch("p2", { metadata: { labels: { pool: "b" } } });
    await eventually(() => expect(told).toEqual(["n2"]));
  });

  it("are read once for footprints that select alike, and anew when more is read of them", async () => {
    await using setup = await setUp();
    const { id, views, received, names } = setup;
    const volumes = [
      { name: "inline", csi: { driver: "efs.csi.aws.com", volumeAttributes: { a: "b" } } },
      { name: "claimed", persistentVolumeClaim: { claimName: "data" } },
      { name: "made", ephemeral: { volumeClaimTemplate: { spec: {} } } },
      { name: "none", emptyDir: {} },
    ];
    const made = { spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } } };
    await setup.create(
      anAteom(id, "p1", "n1")
        .with((pod) => ({
          ...pod,
          spec: {
            containers: [],
            ...pod.spec,
            volumes: volumes.map((volume) =>
              volume.name === "made" ? { name: "made", ephemeral: { volumeClaimTemplate: made } } : volume,
            ),
          },
        }))
        .with(withGpu),
    );
    const [one, two] = [aFootprint(id), aFootprint(id, {}, { name: "two" })];
    views.want([one, two]);
    await eventually(() => expect([names(one, "n1"), names(two, "n1")]).toEqual([["p1"], ["p1"]]));
    expect(received).toEqual(["p1"]);
    views.want([two]);
    expect(names(two, "n1")).toEqual(["p1"]);
    expect(nodesBy(views, "claim", `${id}/data`)).toEqual(new Set());
    const more = aFootprint(id, { requests: ["example.com/gpu"], csiDrivers: ["efs.csi.aws.com"] });
    views.want([two, more]);
    expect(names(two, "n1")).toBeUndefined();
    await eventually(() => expect(names(more, "n1")).toEqual(["p1"]));
    expect(received).toEqual(["p1", "p1"]);
    expect(podsIn(views.pods, more, { node: "n1" })?.[0]?.spec).toEqual({
      nodeName: "n1",
      containers: [
        {
          resources: {
            requests: { cpu: "1", "example.com/gpu": "2" },
            limits: { "example.com/gpu": "2" },
          },
        },
      ],
      volumes: [
        { name: "inline", csi: { driver: "efs.csi.aws.com" } },
        { name: "claimed", persistentVolumeClaim: { claimName: "data" } },
        { name: "made", ephemeral: expect.anything() as unknown },
        { name: "none" },
      ],
    });
    for (const claim of ["data", "p1-made"])
      expect(nodesBy(views, "claim", `${id}/${claim}`)).toEqual(new Set(["n1"]));
    expect(nodesBy(views, "namespace", id)).toEqual(new Set(["n1"]));
  });

  it("are each one pod, of a footprint with several workloads", async () => {
    await using setup = await setUp();
    const { id, views, names } = setup;
    await setup.create(anAteom(id, "p1", "n1"));
    await setup.create(anAteom(id, "p2", "n1").labelled({ [id]: "b" }));
    const [all] = aFootprint(id).workloads;
    const [some] = aFootprint(id, { podSelector: { matchLabels: { [id]: "b" } } }).workloads;
    if (all === undefined || some === undefined) throw new Error("a footprint has no workload");
    const footprint = { ...aFootprint(id), workloads: [all, some] };
    views.want([footprint]);
    await eventually(() => expect(names(footprint, "n1")).toEqual(["p1", "p2"]));
    expect(podsIn(views.pods, footprint)).toHaveLength(2);
  });

  it.each<[string, Readonly<Record<string, string>>, readonly Partial<NeedingPods>[], Answer]>([
    [
      "need it when one of two workloads takes them, whatever the other asks for",
      { a: "yes", b: "yes" },
      [
        { podSelector: { matchLabels: { a: "yes" } } },
        { podSelector: { matchLabels: { b: "yes" } }, requests: ["x.test/gpu"] },
      ],
      "yes",
    ],
    [
      "do not need it when none takes them, be they received for a request and refused for a label",
      { a: "yes", env: "dev" },
      [
        { podSelector: { matchLabels: { a: "yes" } }, requests: ["x.test/gpu"] },
        { podSelector: { matchExpressions: [{ key: "env", operator: "NotIn", values: ["dev"] }] } },
      ],
      "no",
    ],
  ])("%s", async (_name, labels, workloads, answer) => {
    await using setup = await setUp();
    const { id, views } = setup;
    const { workloads: all } = aFootprint(id);
    const [needing] = all as readonly [NeedingPods];
    const mine = workloads.map((workload) => ({ ...needing, ...workload }));
    const footprint = aFootprint(id, {}, { workloads: mine });
    await setup.create(aPod("p").labelled(labels).on(id));
    views.want([footprint]);
    const [pod] = await eventually(() => {
      const found = podsIn(views.pods, footprint, { node: id }) ?? [];
      expect(found).toHaveLength(1);
      return found;
    });
    expect(pod && podNeeds(pod, footprint, sightOf({}))).toBe(answer);
  });

  it("of one group are found by the uid that a label names, where owners are held", async () => {
    await using setup = await setUp();
    const { id, views } = setup;
    const hold = {
      resource: { group: "x.test", version: "v1", resource: "pools" },
      finalizer: "x.test/hold",
      onDelete: "Wait",
      ownedResources: [],
    } as const;
    const footprint = aFootprint(id, {}, { grouping: { by: "PodLabel", label: id }, hold });
    const [a, b] = ["a", "b"].map((name) => name.repeat(36)) as [string, string];
    await setup.create(
      aPod("p1")
        .labelled({ [id]: a })
        .on("n1"),
    );
    await setup.create(aPod("p2").labelled({ [id]: b }));
    views.want([footprint]);
    const of = (labelledUid: string): unknown =>
      podsIn(views.pods, footprint, { labelledUid })
        ?.map(({ metadata }) => metadata?.name)
        .toSorted();
    await eventually(() => expect([of(a), of(b)]).toEqual([["p1"], ["p2"]]));
    await setup.patch("p1", { metadata: { labels: { [id]: b } } });
    await eventually(() => expect([of(a), of(b)]).toEqual([[], ["p1", "p2"]]));
    expect(podsIn(views.pods, footprint, { namespace: id })).toHaveLength(2);
  });
});
