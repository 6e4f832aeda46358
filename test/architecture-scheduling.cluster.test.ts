/**
 * Architecture placement where the whole of Kubernetes is at work: controllers make pods, the scheduler binds them, kwok
 * runs them on nodes of three architectures. Each pod runs only where all its images do, in every mode and between them.
 */
import { runCli } from "@berth/cli";
import {
  type DaemonSet,
  daemonSets,
  deployments,
  type KubeObject,
  nodes,
  type Pod,
  podDisruptionBudgets,
  pods,
  type RuntimeClass,
  runtimeClasses,
  type Toleration,
} from "@berth/kube";
import { architecturePolicies } from "@berth/placement";
import {
  anImage,
  eventually,
  type PodBuilder,
  startRegistry,
  type TestCluster,
  type TestRegistry,
} from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type ArchitectureStage,
  architecturesOf,
  createArchitectureStage,
  DROP_IN,
  followed,
  KEY,
  startArchitectureCluster,
  taintsOf,
  tolerationsFor,
  tolerationsOf,
} from "./architecture-world.ts";
import { createLeapingClock } from "./leaping-clock.ts";

type Mode = "Taint" | "Affinity" | "Both";
const ARCHITECTURES = ["amd64", "arm64", "s390x"];

let cluster: TestCluster;
let registry: TestRegistry;
/** What they run on is their name; `pair` is amd64 and arm64. */
const images = { amd64: "", arm64: "", s390x: "", pair: "", all: "" };
beforeAll(async () => {
  [cluster, registry] = await Promise.all([
    startArchitectureCluster({ with: ["scheduler", "controller-manager", "kwok"] }),
    startRegistry(),
  ]);
  for (const name of ["amd64", "arm64", "s390x"] as const)
    images[name] = await pushed(registry, `all/${name}:1`, name);
  images.pair = await pushed(registry, "all/pair:1", "amd64", "arm64");
  images.all = await pushed(registry, "all/all:1", ...ARCHITECTURES);
});
afterAll(async () => {
  await registry?.[Symbol.asyncDispose]();
  await cluster?.[Symbol.asyncDispose]();
});

async function pushed(to: TestRegistry, name: string, ...architectures: readonly string[]): Promise<string> {
  const platforms = architectures.map((architecture) => `linux/${architecture}`);
  return (await to.push(anImage(name).platforms(...platforms))).reference;
}

/** A node that kwok runs; its name is that of the architecture unless it says otherwise. */
async function addNode(stage: ArchitectureStage, architecture: string, name = architecture): Promise<void> {
  await stage.add(name, (it) => it.architecture(architecture).capacity({ pods: "500" }).fake());
}

/**
 * One that takes pods only once it is tainted. Real ones take seconds to be ready, as the agents of their network have to
 * start; those of kwok are ready at once.
 */
async function addTaintedNode(stage: ArchitectureStage, architecture: string): Promise<void> {
  const booting = { key: "example.com/booting", effect: "NoSchedule" };
  await stage.add(architecture, (it) => it.architecture(architecture).tainted(booting).fake());
  await stage.tainted(architecture, [architecture]);
  await eventually(() => untaint(stage, architecture, booting.key));
}

/** Fails when somebody else writes the taints at the same time. */
async function untaint(stage: ArchitectureStage, node: string, key: string): Promise<void> {
  const { metadata, spec } = await stage.readNode(node);
  const at = spec?.taints?.findIndex((taint) => taint.key === key) ?? -1;
  const test = { op: "test", path: "/metadata/resourceVersion", value: metadata?.resourceVersion } as const;
  const body = [test, { op: "remove", path: `/spec/taints/${at}` }] as const;
  await cluster.client.patch(nodes, { name: stage.nodeName(node) }, { type: "json", body });
}

/** Of the node that the pod is bound to; none before. */
async function whereIs(stage: ArchitectureStage, { spec }: Pod): Promise<string | undefined> {
  if (spec?.nodeName === undefined) return undefined;
  const { status } = await stage.cluster.client.get(nodes, { name: spec.nodeName });
  return status?.nodeInfo?.architecture;
}

/** Resolves with its architecture once the pod runs. */
async function running(stage: ArchitectureStage, name: string): Promise<string> {
  const pod = await eventually(
    async () => {
      const found = await stage.readPod(name);
      if (found.status?.phase !== "Running")
        throw new Error(`${name} does not run: ${JSON.stringify([found.spec, found.status])}`);
      return found;
    },
    { timeoutMs: 60_000 },
  );
  return (await whereIs(stage, pod)) ?? "";
}

/** Resolves once the scheduler has found no node for the pod. */
async function unschedulable(stage: ArchitectureStage, name: string): Promise<void> {
  await eventually(async () => {
    const { status } = await stage.readPod(name);
    const condition = status?.conditions?.find(({ type }) => type === "PodScheduled");
    expect(condition).toMatchObject({ status: "False", reason: "Unschedulable" });
  });
}

describe("pods run only where all their images do, and wait while there is no such node", () => {
  it.each([
    ["Taint", undefined],
    ["Affinity", "Ignore"],
    ["Both", "Ignore"],
  ] as const)("in mode %s", async (mode, asked) => {
    await using stage = await createArchitectureStage(cluster, `lands-${mode.toLowerCase()}`);
    await stage.policy("all", { mode, maxHold: "5m", afterMaxHold: "Keep", impossible: "Hold" });
    for (const architecture of ["amd64", "arm64"]) await addNode(stage, architecture);
    await stage.start(asked === undefined ? {} : { asked });
    if (asked !== undefined) await stage.asking();
    const hasTaints = mode !== "Affinity";
    if (hasTaints) for (const node of ["amd64", "arm64"]) await stage.tainted(node, [node]);
    const kinds: Readonly<Record<string, readonly [PodBuilder, readonly string[]]>> = {
      amd: [stage.pod("amd").image(images.amd64), ["amd64"]],
      arm: [stage.pod("arm").image(images.arm64), ["arm64"]],
      mixed: [stage.pod("mixed").image(images.pair).container("b", images.arm64), ["arm64"]],
      setup: [stage.pod("setup").image(images.pair).initContainer("a", images.amd64), ["amd64"]],
      pair: [stage.pod("pair").image(images.pair), ["amd64", "arm64"]],
      "all-amd": [stage.pod("all-amd").image(images.all).selecting(onlyOn("amd64")), ["amd64"]],
      "all-arm": [stage.pod("all-arm").image(images.all).selecting(onlyOn("arm64")), ["arm64"]],
    };
    const none = stage.pod("none").image(images.amd64).container("b", images.arm64);
    await stage.create(none);
    for (const at of [1, 2, 3])
      for (const [name, [pod]] of Object.entries(kinds)) await stage.create(named(pod, `${name}-${at}`));
    await stage.create(stage.pod("mainframe").image(images.s390x));
    for (const at of [1, 2, 3])
      for (const [name, [, allowed]] of Object.entries(kinds))
        expect([name, allowed]).toEqual([
          name,
          expect.arrayContaining([await running(stage, `${name}-${at}`)]),
        ]);
    await unschedulable(stage, "mainframe");
    await (hasTaints ? addTaintedNode(stage, "s390x") : addNode(stage, "s390x"));
    expect(await running(stage, "mainframe")).toBe("s390x");
    await stage.said("NoCommonArchitecture", "none");
    expect((await stage.readPod("none")).spec?.nodeName).toBeUndefined();
  });
});

const onlyOn = (architecture: string) => ({ "kubernetes.io/arch": architecture });

function named(pod: PodBuilder, name: string): PodBuilder {
  return pod.with((it) => ({ ...it, metadata: { ...it.metadata, name } }));
}

describe("what says more than the images", () => {
  it("is honoured: the RuntimeClass of a pod keeps it to one architecture, and preferences choose between several", async () => {
    await using stage = await createArchitectureStage(cluster, "classes");
    const printed = await command("manifests", "runtime-class", "--handler", "runc", "arm64", "-o", "json");
    const classes = JSON.parse(printed) as { readonly items: readonly RuntimeClass[] };
    for (const object of classes.items) {
      const { name = "" } = object.metadata ?? {};
      await cluster.client.create(runtimeClasses, object);
      stage.owns(() => cluster.client.delete(runtimeClasses, { name }).then(() => undefined));
    }
    for (const architecture of ARCHITECTURES) await addNode(stage, architecture);
    await stage.policy("all", { mode: "Both", preferences: [{ architecture: "s390x", weight: 100 }] });
    await stage.start({ asked: "Ignore" });
    await stage.asking();
    for (const architecture of ARCHITECTURES) await stage.tainted(architecture, [architecture]);
    const inClass = (name: string, image: string): PodBuilder =>
      stage
        .pod(name)
        .image(image)
        .with((pod) => ({
          ...pod,
          spec: { containers: [], ...pod.spec, runtimeClassName: "berth-arm64" },
        }));
    await stage.create(inClass("class", images.all));
    await stage.create(inClass("none", images.amd64));
    await stage.create(stage.pod("preferring").image(images.all));
    await stage.create(stage.pod("without-choice").image(images.pair));
    expect(await running(stage, "class")).toBe("arm64");
    expect(await running(stage, "preferring")).toBe("s390x");
    expect(["amd64", "arm64"]).toContain(await running(stage, "without-choice"));
    await unschedulable(stage, "none");
  });
});

describe("DaemonSets", () => {
  it("A-B7 tolerate first, then nodes are tainted; new nodes get their pods, where the images run", async () => {
    await using own = await startRegistry();
    await using stage = await createArchitectureStage(cluster, "agents");
    const clock = createLeapingClock();
    for (const architecture of ["amd64", "arm64"]) await addNode(stage, architecture);
    await cluster.client.create(
      daemonSets,
      agent(stage, "agent", await pushed(own, "agent:1", "amd64", "arm64")),
    );
    // It waits for a node that is large enough, from before Berth on.
    await stage.create(stage.pod("large").image(images.all).requesting({ cpu: "1000" }));
    await agentsOn(stage, "agent", ["amd64", "arm64"]);
    await own.stop();
    await stage.policy("all", { mode: "Taint" });
    await using order = await firstVersions(stage);
    await stage.start({ clock });
    await eventually(async () =>
      expect(await stage.status("all")).toMatchObject({
        phase: "Bootstrapping",
        firstUncovered: [`DaemonSet ${stage.name}/agent`],
      }),
    );
    await stage.tolerating("large", ARCHITECTURES);
    for (const node of ["amd64", "arm64"]) await stage.tainted(node, []);
    await own.start();
    await eventually(async () => {
      await clock.leap(10_000);
      expect((await stage.status("all")).phase).toBe("Tainting");
    });
    for (const node of ["amd64", "arm64"]) await stage.tainted(node, [node]);
    const { tolerating, tainted } = await order.end();
    expect([...tolerating.keys()].toSorted()).toEqual(["DaemonSet agent", "Pod large"]);
    for (const [what, version] of tolerating)
      for (const [node, later] of tainted) expect([what, node, version < later]).toEqual([what, node, true]);

    await addNode(stage, "arm64", "later-arm64");
    await stage.tainted("later-arm64", ["arm64"]);
    await agentsOn(stage, "agent", ["amd64", "arm64", "later-arm64"]);
    const { spec } = await cluster.client.get(daemonSets, { namespace: stage.name, name: "agent" });
    expect(spec?.template.spec?.tolerations).toEqual(tolerationsFor(["amd64", "arm64"]));

    // The image of the first does not run there, but that of the second does.
    await addTaintedNode(stage, "s390x");
    await cluster.client.create(daemonSets, agent(stage, "everywhere", images.all));
    await agentsOn(stage, "everywhere", ["amd64", "arm64", "later-arm64", "s390x"]);
    await agentsOn(stage, "agent", ["amd64", "arm64", "later-arm64"]);
  });
});

function agent({ name: namespace }: ArchitectureStage, name: string, image: string): DaemonSet {
  const labels = { agent: name };
  return {
    apiVersion: "apps/v1",
    kind: "DaemonSet",
    metadata: { name, namespace },
    spec: {
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: "main", image }] } },
    },
  };
}

/** Resolves once one pod of the DaemonSet runs on each of these nodes, and none elsewhere. */
async function agentsOn(stage: ArchitectureStage, name: string, wanted: readonly string[]): Promise<void> {
  await eventually(
    async () => {
      const { items } = await cluster.client.list(pods, {
        namespace: stage.name,
        labelSelector: `agent=${name}`,
      });
      const found = items.map(({ spec, status }) => `${spec?.nodeName} ${status?.phase}`);
      expect(found.toSorted()).toEqual(wanted.map((node) => `${stage.nodeName(node)} Running`).toSorted());
    },
    { timeoutMs: 60_000 },
  );
}

interface FirstVersions {
  /** Workloads that came to tolerate the taint, and nodes that came to carry it, with the versions that did first. */
  readonly tolerating: ReadonlyMap<string, bigint>;
  readonly tainted: ReadonlyMap<string, bigint>;
}

/** Versions of all resources are of one order: they are etcd's revisions. */
async function firstVersions(
  stage: ArchitectureStage,
): Promise<AsyncDisposable & { end(): Promise<FirstVersions> }> {
  await using owned = new AsyncDisposableStack();
  const tolerating = new Map<string, bigint>();
  const tainted = new Map<string, bigint>();
  const note = (to: Map<string, bigint>, what: string, { metadata }: KubeObject): void => {
    if (!to.has(what)) to.set(what, BigInt(metadata?.resourceVersion ?? "0"));
  };
  const tolerates = (list: readonly Toleration[] = []): boolean => list.some(({ key }) => key === KEY);
  const { client } = stage.cluster;
  const watches = [
    await followed(client, nodes, (node) => {
      if (taintsOf(node).some((it) => it.startsWith(KEY))) note(tainted, node.metadata?.name ?? "", node);
    }),
    await followed(client, daemonSets, (set) => {
      if (tolerates(set.spec?.template.spec?.tolerations))
        note(tolerating, `DaemonSet ${set.metadata?.name}`, set);
    }),
    await followed(client, pods, (pod) => {
      const isAgent = pod.metadata?.ownerReferences !== undefined;
      if (!isAgent && tolerates(pod.spec?.tolerations)) note(tolerating, `Pod ${pod.metadata?.name}`, pod);
    }),
  ];
  for (const watch of watches) owned.use(watch);
  const disposables = owned.move();
  return {
    async end() {
      for (const watch of watches) await watch.end();
      return { tolerating, tainted };
    },
    [Symbol.asyncDispose]: () => disposables.disposeAsync(),
  };
}

describe("the change of mode", () => {
  it("from Taint by Both to Affinity, and back, leaves no pod where its images do not run, and none waiting", async () => {
    await using stage = await createArchitectureStage(cluster, "changing");
    for (const architecture of ARCHITECTURES) await addNode(stage, architecture);
    await stage.policy("all", { mode: "Taint", maxHold: "5m" });
    await stage.start({ asked: "Ignore" });
    await stage.asking();
    for (const architecture of ARCHITECTURES) await stage.tainted(architecture, [architecture]);
    await using users = createUsers(stage);
    /** What pods are like that were made and run in this mode. */
    const settledIn = async (mode: Mode): Promise<void> => {
      const seen = await users.seen(12);
      for (const { pod, allowed } of seen) {
        const { name } = pod.metadata ?? {};
        const given = tolerationsOf(pod);
        expect([name, given]).toEqual([name, mode === "Affinity" ? [] : tolerationsFor(allowed)]);
        expect([name, architecturesOf(pod)]).toEqual([name, mode === "Taint" ? [] : [allowed]]);
      }
    };
    const changeTo = async (mode: Mode): Promise<void> => {
      const body = { spec: { mode } };
      const { metadata } = await cluster.client.patch(
        architecturePolicies,
        { name: "all" },
        { type: "merge", body },
      );
      const phase = mode === "Affinity" ? "Narrowing" : "Tainting";
      await eventually(async () =>
        expect(await stage.status("all")).toMatchObject({ observedGeneration: metadata?.generation, phase }),
      );
      for (const node of ARCHITECTURES) await stage.tainted(node, mode === "Affinity" ? [] : [node]);
      await users.settled();
    };
    await settledIn("Taint");
    for (const mode of ["Both", "Affinity", "Both", "Taint"] as const) {
      await changeTo(mode);
      await settledIn(mode);
    }
    await users[Symbol.asyncDispose]();
    const told = await stage.toldOfPods();
    for (const failure of ["NoCommonArchitecture", "HoldExpired", "PodPatchRefused"])
      expect(told).not.toContain(failure);
  });
});

describe("berth clean", () => {
  it("A-P12 A-B10 takes taints off, and restarts pods if asked to: by eviction, within their disruption budget", async () => {
    await using stage = await createArchitectureStage(cluster, "cleaned");
    const { name: namespace } = stage;
    for (const architecture of ["amd64", "arm64"]) await addNode(stage, architecture);
    const { berth } = await stage.start({ config: [{ path: DROP_IN, shown: "drop-in" }] });
    for (const node of ["amd64", "arm64"]) await stage.tainted(node, [node]);
    const labels = { app: "web" };
    const budget = { minAvailable: 1, selector: { matchLabels: labels } };
    await cluster.client.create(
      podDisruptionBudgets,
      { metadata: { name: "web" }, spec: budget },
      { namespace },
    );
    const template = { metadata: { labels }, spec: { containers: [{ name: "main", image: images.pair }] } };
    await cluster.client.create(
      deployments,
      { metadata: { name: "web" }, spec: { replicas: 2, selector: { matchLabels: labels }, template } },
      { namespace },
    );
    await stage.create(stage.pod("bare").image(images.pair));
    const web = async (): Promise<readonly Pod[]> =>
      (await cluster.client.list(pods, { namespace, labelSelector: "app=web" })).items;
    const runningWith = (values: readonly string[]): Promise<readonly string[]> =>
      eventually(async () => {
        const found = await web();
        expect(found.map(({ status }) => status?.phase)).toEqual(["Running", "Running"]);
        for (const pod of found) expect(tolerationsOf(pod)).toEqual(tolerationsFor(values));
        return found.map(({ metadata }) => metadata?.uid ?? "");
      });
    const before = await runningWith(["amd64", "arm64"]);
    await running(stage, "bare");
    await eventually(async () => {
      const { status } = await cluster.client.get(podDisruptionBudgets, { namespace, name: "web" });
      expect(status?.disruptionsAllowed).toBe(1);
    });
    await berth[Symbol.asyncDispose]();
    const kubeconfig = await stage.file("kubeconfig", cluster.kubeconfig());
    const clean = ["clean", "--capability", "architecture", "--yes", "-kubeconfig", kubeconfig.path];
    const mark = await cluster.audit.mark();
    await command(...clean);
    for (const node of ["amd64", "arm64"]) await stage.tainted(node, []);
    expect(await stage.writes(mark, "pods")).toEqual([]);
    await command(...clean, "--restart-pods");
    const after = await runningWith([]);
    expect(after.filter((uid) => before.includes(uid))).toEqual([]);
    expect(tolerationsOf(await stage.readPod("bare"))).toEqual(tolerationsFor(["amd64", "arm64"]));
    const writes = await stage.writes(mark, "pods");
    expect(writes.filter((it) => it === "create eviction 201")).toHaveLength(2);
    expect(writes.filter((it) => !it.startsWith("create eviction "))).toEqual([]);
  });
});

const USERS = 3;

interface Placed {
  readonly pod: Pod;
  readonly allowed: readonly string[];
}

interface Users extends AsyncDisposable {
  /** Resolves once all pods run that were made before the call. */
  settled(): Promise<void>;
  /** Resolves once so many pods run that were made after the call, with these. */
  seen(count: number): Promise<readonly Placed[]>;
}

/** Each makes a pod, waits until it runs, checks where, and makes the next, until it is disposed. One of three images is new. */
function createUsers(stage: ArchitectureStage): Users {
  const stop = new AbortController();
  const placed: (Placed & { readonly madeAt: number })[] = [];
  const waiting = new Map<string, number>();
  let count = 0;
  const next = async (): Promise<void> => {
    const at = count++;
    const name = `app-${at}`;
    const allowed = [["amd64"], ["arm64"], ["s390x"], ["amd64", "arm64"]][at % 4] ?? [];
    const known = allowed.length === 2 ? images.pair : images[allowed[0] as "amd64"];
    const image = at % 3 === 0 ? await pushed(registry, `new/${name}:1`, ...allowed) : known;
    const madeAt = performance.now();
    waiting.set(name, madeAt);
    await stage.create(stage.pod(name).image(image));
    expect(allowed).toContain(await running(stage, name));
    waiting.delete(name);
    placed.push({ pod: await stage.readPod(name), allowed, madeAt });
  };
  const user = async (): Promise<void> => {
    while (!stop.signal.aborted) await next();
  };
  const working = Promise.all(Array.from({ length: USERS }, user)).finally(() => stop.abort());
  working.catch(() => undefined); // told to whoever looks next
  const when = <T>(check: (from: number) => T): Promise<T> => {
    const from = performance.now();
    const look = async (): Promise<T> => {
      if (stop.signal.aborted) await working;
      return check(from);
    };
    return eventually(look, { timeoutMs: 90_000 });
  };
  return {
    settled: () =>
      when((from) => {
        const before = [...waiting].filter(([, madeAt]) => madeAt < from);
        if (before.length > 0) throw new Error(`${JSON.stringify(before)} wait`);
      }),
    seen: (wanted) =>
      when((from) => {
        const found = placed.filter(({ madeAt }) => madeAt > from);
        if (found.length < wanted) throw new Error(`${found.length} of ${wanted} pods run`);
        return found;
      }),
    async [Symbol.asyncDispose]() {
      stop.abort();
      await working;
    },
  };
}

/** What a command prints that a user runs, and that ends well. */
async function command(...args: readonly string[]): Promise<string> {
  let output = "";
  const printer = { isTerminal: false, columns: undefined, write: (text: string) => void (output += text) };
  const signal = new AbortController().signal;
  const code = await runCli(args, {
    environment: {},
    folder: import.meta.dirname,
    home: undefined,
    stdout: printer,
    stderr: printer,
    signal,
    self: "berth",
  });
  expect([code, output]).toEqual([0, expect.any(String)]);
  return output;
}
