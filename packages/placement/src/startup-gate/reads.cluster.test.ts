/** Which pods and DaemonSets arrive from a real API server, what is kept of them, and whom changes wake. */
import { createViews } from "@berth/host";
import { type DaemonSet, daemonSets, pods } from "@berth/kube";
import { createSharedInformers, createSilentLogger, systemClock } from "@berth/runtime";
import { aPod, eventually, type PodBuilder, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { daemonSetsRead, movesPods } from "../node/daemonsets.ts";
import type { PodQuery } from "./gate.ts";
import { IdleProbe } from "./idle-probe.ts";
import { aNamespace, CLUSTER, READY, watching } from "./testing/watching.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedTestCluster();
});

const anInit = (name: string, node: string): PodBuilder =>
  aPod(name).labelled({ component: "init" }).on(node);

describe("the pods of a query", () => {
  it("are all that is received among 2,000 others, and only what signals read is kept", async () => {
    await using setup = await watching(cluster);
    const { namespace, query, view, names } = setup;
    const left = Array.from({ length: 2_000 }, (_, index) => aPod(`foreign-${index}`).on("n1")).values();
    const createEach = async (): Promise<void> => {
      for (const pod of left) await cluster.client.create(pods, pod.in(namespace).build(), { namespace });
    };
    await Promise.all(Array.from({ length: 16 }, createEach));
    const status = {
      phase: "Running",
      podIP: "10.0.0.1",
      conditions: [
        { type: "Ready", status: "False", reason: "X", lastTransitionTime: "2026-01-01T00:00:00Z" },
        { type: "PodScheduled", status: "True" },
      ],
      containerStatuses: [
        {
          name: "main",
          ready: true,
          image: "i",
          imageID: "id",
          restartCount: 1,
          state: { running: { startedAt: "2026-01-01T00:00:01Z" } },
          lastState: { terminated: { exitCode: 1 } },
        },
        {
          name: "side",
          ready: false,
          image: "i",
          imageID: "id",
          restartCount: 0,
          state: { waiting: { reason: "CrashLoopBackOff", message: "long" } },
        },
      ],
    };
    const { metadata } = await setup.create(
      anInit("init-1", "n1")
        .ofDaemonSet("init")
        .annotated({ [READY]: "true", huge: "x".repeat(10_000) })
        .with((pod) => ({ ...pod, status })),
    );
    await setup.create(anInit("init-2", "n2"));
    setup.want([query]);
    expect(names("n1")).toBeUndefined();
    await eventually(() => expect(names("n1")).toEqual(["init-1"]));
    expect(names("n2")).toEqual(["init-2"]);
    expect(names("n3")).toEqual([]);
    expect(view.size).toBe(2);
    expect(setup.synced()).toBe(1);
    expect(view.at(query)?.byIndex("node", "n1")).toEqual([
      {
        apiVersion: "v1",
        kind: "Pod",
        metadata: {
          name: "init-1",
          namespace,
          uid: metadata?.uid,
          resourceVersion: metadata?.resourceVersion,
          creationTimestamp: metadata?.creationTimestamp,
          ownerReferences: metadata?.ownerReferences,
          annotations: { [READY]: "true" },
        },
        spec: { nodeName: "n1" },
        status: {
          phase: "Running",
          conditions: [{ type: "Ready", status: "False", lastTransitionTime: "2026-01-01T00:00:00Z" }],
          containerStatuses: [
            { name: "main", ready: true, state: { running: { startedAt: "2026-01-01T00:00:01Z" } } },
            { name: "side", ready: false, state: { waiting: { reason: "CrashLoopBackOff" } } },
          ],
        },
      },
    ]);
  });

  it("wake their node when what is kept changes, and nobody otherwise", async () => {
    await using setup = await watching(cluster);
    await setup.create(anInit("init-1", "n1"));
    await setup.create(anInit("init-2", "n2"));
    setup.want([setup.query]);
    await eventually(() => expect(setup.names("n1")).toEqual(["init-1"]));
    const probed = { type: "ContainersReady", status: "True", lastProbeTime: "2026-01-01T00:00:00Z" };
    await setup.patch("init-1", { status: { conditions: [probed], podIP: "10.0.0.9" } }, "status");
    await setup.patch("init-1", { metadata: { annotations: { other: "x" }, labels: { other: "x" } } });
    await setup.patch("init-2", { metadata: { annotations: { [READY]: "true" } } });
    await eventually(() => expect(setup.told).toContain("n2"));
    expect(setup.told).toEqual(["n2"]);
    await setup.patch("init-1", { status: { conditions: [{ type: "Ready", status: "True" }] } }, "status");
    await eventually(() => expect(setup.told).toEqual(["n2", "n1"]));
    await setup.patch("init-1", { metadata: { labels: { component: "other" } } });
    await eventually(() => expect(setup.names("n1")).toEqual([]));
    expect(setup.told).toEqual(["n2", "n1", "n1"]);
  });

  it("wake both nodes when a pod is made again on another, and a pod without a node wakes none", async () => {
    await using setup = await watching(cluster);
    const { namespace, told, names } = setup;
    await setup.create(anInit("init", "n1"));
    setup.want([setup.query]);
    await eventually(() => expect(names("n1")).toEqual(["init"]));
    await cluster.client.create(pods, anInit("unbound", "").in(namespace).build(), { namespace });
    await cluster.client.delete(pods, { namespace, name: "init" }, { gracePeriodSeconds: 0 });
    await cluster.client.create(pods, anInit("init", "n2").in(namespace).build(), { namespace });
    await eventually(() => expect(names("n2")).toEqual(["init"]));
    expect(names("n1")).toEqual([]);
    expect(new Set(told)).toEqual(new Set(["n1", "n2"]));
    expect(setup.view.size).toBe(2);
  });

  it("are of all namespaces without one, and are read anew when another annotation counts", async () => {
    await using setup = await watching(cluster);
    const { namespace, view, names } = setup;
    const labelSelector = `component=${namespace}`;
    const everywhere: PodQuery = { labelSelector };
    const elsewhere: PodQuery = { namespace: await aNamespace(cluster), labelSelector };
    const pod = aPod("init").on("n1").labelled({ component: namespace }).annotated({ later: "yes" });
    await setup.create(pod);
    setup.want([everywhere, elsewhere]);
    await eventually(() => expect([names("n1", everywhere), names("n1", elsewhere)]).toEqual([["init"], []]));
    const annotationsOf = (): unknown =>
      view
        .at(everywhere)
        ?.byIndex("node", "n1")
        ?.map(({ metadata }) => metadata?.annotations);
    expect(annotationsOf()).toEqual([{}]);
    setup.want([everywhere]);
    expect(names("n1", everywhere)).toEqual(["init"]);
    expect(names("n1", elsewhere)).toBeUndefined();
    setup.want([everywhere], [READY, "later"]);
    expect(names("n1", everywhere)).toBeUndefined();
    await eventually(() => expect(annotationsOf()).toEqual([{ later: "yes" }]));
    expect(view.size).toBe(1);
  });
});

describe("DaemonSets", () => {
  const agent: DaemonSet = {
    metadata: { name: "agent" },
    spec: {
      selector: { matchLabels: { app: "agent" } },
      template: {
        metadata: { labels: { app: "agent" } },
        spec: {
          containers: [{ name: "main", image: "registry.test/agent:1" }],
          nodeSelector: { disk: "ssd" },
          tolerations: [{ operator: "Exists" }],
          hostNetwork: true,
          affinity: {
            nodeAffinity: {
              requiredDuringSchedulingIgnoredDuringExecution: {
                nodeSelectorTerms: [{ matchExpressions: [{ key: "gpu", operator: "Exists" }] }],
              },
            },
            podAntiAffinity: {
              preferredDuringSchedulingIgnoredDuringExecution: [],
            },
          },
        },
      },
    },
  };

  it("are known while they are needed, as far as says where their pods belong and what they run", async () => {
    const namespace = await aNamespace(cluster);
    await using client = cluster.connect();
    let changes = 0;
    let versions = 0;
    const views = createViews<{ readonly sets: DaemonSet }, boolean, string>(
      { sets: daemonSetsRead("test", (isNeeded) => isNeeded) },
      {
        informers: createSharedInformers({ client, cluster: CLUSTER, clock: systemClock }),
        cluster: CLUSTER,
        clock: systemClock,
        log: createSilentLogger(),
        concerns: { sets: (change) => (movesPods(change) ? "all" : []) },
        versions: { sets: () => ["version"] },
        onKeys: (keys) => void (versions += [...keys].length),
        onAll: () => void changes++,
      },
    );
    const { sets } = views;
    await using stack = new AsyncDisposableStack();
    const stopping = new AbortController();
    const { ended } = await sets.start(stopping.signal);
    stack.defer(async () => {
      stopping.abort();
      await ended;
    });
    const { metadata } = await cluster.client.create(daemonSets, agent, { namespace });
    const of = { namespace, name: "agent" };
    const patch = (body: object, options = {}): Promise<DaemonSet> =>
      cluster.client.patch(daemonSets, of, { type: "merge", body }, options);
    expect(sets.find("agent", namespace)).toBeUndefined();
    views.want(true);
    await eventually(() => expect(sets.find("agent", namespace)).toBeDefined());
    const template = agent.spec?.template.spec;
    expect(sets.find("agent", namespace)).toEqual({
      metadata: {
        name: "agent",
        namespace,
        uid: metadata?.uid,
        resourceVersion: metadata?.resourceVersion,
        creationTimestamp: metadata?.creationTimestamp,
        generation: 1,
      },
      status: { numberReady: 0 },
      spec: {
        selector: agent.spec?.selector,
        template: {
          metadata: { labels: { app: "agent" } },
          spec: {
            containers: [{ name: "main", image: "registry.test/agent:1", imagePullPolicy: "IfNotPresent" }],
            nodeSelector: template?.nodeSelector,
            tolerations: template?.tolerations,
            hostNetwork: true,
            affinity: { nodeAffinity: template?.affinity?.nodeAffinity },
          },
        },
      },
    });
    expect(sets.find("other", namespace)).toBeNull();
    expect(changes).toBe(1);
    await patch(
      { status: { desiredNumberScheduled: 3, currentNumberScheduled: 3 } },
      { subresource: "status" },
    );
    await patch({ spec: { template: { metadata: { annotations: { rollout: "2" } } } } });
    await patch({ spec: { template: { metadata: { labels: { app: "agent", version: "2" } } } } });
    await patch({ spec: { template: { spec: { nodeSelector: { disk: "nvme" } } } } });
    await eventually(() => expect(changes).toBe(2));
    await cluster.client.delete(daemonSets, of);
    await eventually(() => expect(sets.find("agent", namespace)).toBeNull());
    expect([changes, versions]).toEqual([3, 5]);
    views.want(false);
    expect(sets.find("agent", namespace)).toBeUndefined();
    expect([sets.size, sets.problem()]).toEqual([0, undefined]);
  });
});

describe("whether a node is idle", () => {
  it("is read off the pods bound to it, ended ones and those of DaemonSets included", async () => {
    await using setup = await watching(cluster);
    const { namespace } = setup;
    const known: string[] = [];
    const probe = new IdleProbe({
      client: setup.client,
      clock: systemClock,
      log: createSilentLogger(),
      onKnown: (node) => void known.push(node),
    });
    await using stack = new AsyncDisposableStack();
    const stopping = new AbortController();
    const { ended } = await probe.start(stopping.signal);
    stack.defer(async () => {
      stopping.abort();
      await ended;
    });
    const on = (node: string): string => `${namespace}-${node}`;
    await setup.create(aPod("ended").on(on("ended")).phase("Succeeded"));
    await setup.create(aPod("agent").on(on("agent")).ofDaemonSet("agent"));
    await setup.create(aPod("ours").on(on("ours")));
    const idleOf = (node: string, ignored: readonly string[] = ["kube-system"]): unknown =>
      probe.idleOf({ metadata: { name: on(node), uid: node } }, ignored);
    for (const node of ["ended", "agent", "none"]) expect(idleOf(node)).toBe("unknown");
    expect(idleOf("ours", ["kube-system", namespace])).toBe("unknown");
    const nodes = ["ended", "agent", "ours", "none"].map(on);
    await eventually(() => expect(new Set(known)).toEqual(new Set(nodes)));
    expect(idleOf("ended")).toEqual({ idle: false, pod: `${namespace}/ended` });
    expect(idleOf("agent")).toEqual({ idle: false, pod: `${namespace}/agent` });
    // That a node is idle is forgotten after ten seconds, and looked up again.
    await eventually(() => expect(idleOf("none")).toEqual({ idle: true }));
    await eventually(() => expect(idleOf("ours", [namespace, "kube-system"])).toEqual({ idle: true }));
  });
});
