/**
 * Architecture placement where the whole of Kubernetes is at work: controllers make pods, the scheduler binds them, kwok
 * runs them on nodes of three architectures. Each pod runs only where all its images do, in every mode and between them.
 */
import {
  type DaemonSet,
  daemonSets,
  deployments,
  type Pod,
  podDisruptionBudgets,
  pods,
  type RuntimeClass,
  runtimeClasses,
} from "@berth/kube";
import { ARCHITECTURE_CONDITION, architecturePolicies } from "@berth/placement";
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
  type ArchitectureFixture,
  architecturesOf,
  createArchitectureFixture,
  DROP_IN,
  tolerationsFor,
  tolerationsOf,
} from "./architecture-fixture.ts";
import {
  addNode,
  addTaintedNode,
  createUsers,
  firstVersions,
  running,
  unschedulable,
} from "./architecture-live.ts";
import { createLeapingClock } from "./clocks.ts";
import { runCommand } from "./command.ts";
import { sharedFullCluster } from "./footprint-cluster.ts";
import { patiently } from "./patience.ts";

type Mode = "Taint" | "Affinity" | "Both";
const ARCHITECTURES = ["amd64", "arm64", "s390x"];

let cluster: TestCluster;
let registry: TestRegistry;
/** What they run on is their name; `pair` is amd64 and arm64. */
const images = { amd64: "", arm64: "", s390x: "", pair: "", all: "" };
beforeAll(async () => {
  [cluster, registry] = await Promise.all([sharedFullCluster(), startRegistry()]);
  for (const name of ["amd64", "arm64", "s390x"] as const)
    images[name] = await pushed(registry, `all/${name}:1`, name);
  images.pair = await pushed(registry, "all/pair:1", "amd64", "arm64");
  images.all = await pushed(registry, "all/all:1", ...ARCHITECTURES);
});
afterAll(async () => {
  await registry?.[Symbol.asyncDispose]();
});

async function pushed(to: TestRegistry, name: string, ...architectures: readonly string[]): Promise<string> {
  const platforms = architectures.map((architecture) => `linux/${architecture}`);
  return (await to.push(anImage(name).platforms(...platforms))).reference;
}

describe("pods run only where all their images do, and wait while there is no such node", () => {
  it.each([
    ["Taint", undefined],
    ["Affinity", "Ignore"],
    ["Both", "Ignore"],
  ] as const)("in mode %s", async (mode, asked) => {
    await using fixture = await createArchitectureFixture(cluster, `lands-${mode.toLowerCase()}`, [registry]);
    await fixture.policy("all", { mode, maxHold: "5m", afterMaxHold: "Keep", impossible: "Hold" });
    for (const architecture of ["amd64", "arm64"]) await addNode(fixture, architecture);
    await fixture.start(asked === undefined ? {} : { asked });
    if (asked !== undefined) await fixture.asking();
    const hasTaints = mode !== "Affinity";
    if (hasTaints) for (const node of ["amd64", "arm64"]) await fixture.tainted(node, [node]);
    const kinds: Readonly<Record<string, readonly [PodBuilder, readonly string[]]>> = {
      amd: [fixture.pod("amd").image(images.amd64), ["amd64"]],
      arm: [fixture.pod("arm").image(images.arm64), ["arm64"]],
      mixed: [fixture.pod("mixed").image(images.pair).container("b", images.arm64), ["arm64"]],
      setup: [fixture.pod("setup").image(images.pair).initContainer("a", images.amd64), ["amd64"]],
      pair: [fixture.pod("pair").image(images.pair), ["amd64", "arm64"]],
      "all-amd": [fixture.pod("all-amd").image(images.all).selecting(onlyOn("amd64")), ["amd64"]],
      "all-arm": [fixture.pod("all-arm").image(images.all).selecting(onlyOn("arm64")), ["arm64"]],
    };
    const none = fixture.pod("none").image(images.amd64).container("b", images.arm64);
    await fixture.create(none);
    for (const at of [1, 2, 3])
      for (const [name, [pod]] of Object.entries(kinds)) await fixture.create(named(pod, `${name}-${at}`));
    await fixture.create(fixture.pod("mainframe").image(images.s390x));
    for (const at of [1, 2, 3])
      for (const [name, [, allowed]] of Object.entries(kinds))
        expect([name, allowed]).toEqual([
          name,
          expect.arrayContaining([await running(fixture, `${name}-${at}`)]),
        ]);
    await unschedulable(fixture, "mainframe");
    await (hasTaints ? addTaintedNode(fixture, "s390x") : addNode(fixture, "s390x"));
    expect(await running(fixture, "mainframe")).toBe("s390x");
    await fixture.event("NoCommonArchitecture", "none");
    expect((await fixture.readPod("none")).spec?.nodeName).toBeUndefined();
  });
});

const onlyOn = (architecture: string) => ({ "kubernetes.io/arch": architecture });

function named(pod: PodBuilder, name: string): PodBuilder {
  return pod.with((it) => ({ ...it, metadata: { ...it.metadata, name } }));
}

describe("what says more than the images", () => {
  it("is honoured: the RuntimeClass of a pod keeps it to one architecture, and preferences choose between several", async () => {
    await using fixture = await createArchitectureFixture(cluster, "classes", [registry]);
    const printed = await runCommand(
      "manifests",
      "runtime-class",
      "--handler",
      "runc",
      "arm64",
      "-o",
      "json",
    );
    const classes = JSON.parse(printed) as { readonly items: readonly RuntimeClass[] };
    for (const object of classes.items) {
      const { name = "" } = object.metadata ?? {};
      await cluster.client.create(runtimeClasses, object);
      fixture.owns(() => cluster.client.delete(runtimeClasses, { name }).then(() => undefined));
    }
    for (const architecture of ARCHITECTURES) await addNode(fixture, architecture);
    const preferences = [{ architecture: "s390x", weight: 100 }];
    await fixture.policy("all", { mode: "Both", impossible: "Hold", preferences });
    await fixture.start({ asked: "Ignore" });
    await fixture.asking();
    for (const architecture of ARCHITECTURES) await fixture.tainted(architecture, [architecture]);
    const inClass = (name: string, image: string): PodBuilder =>
      fixture
        .pod(name)
        .image(image)
        .with((pod) => ({
          ...pod,
          spec: { containers: [], ...pod.spec, runtimeClassName: "berth-arm64" },
        }));
    await fixture.create(inClass("class", images.all));
    await fixture.create(inClass("none", images.amd64));
    await fixture.create(fixture.pod("preferring").image(images.all));
    await fixture.create(fixture.pod("without-choice").image(images.pair));
    expect(await running(fixture, "class")).toBe("arm64");
    expect(await running(fixture, "preferring")).toBe("s390x");
    expect(["amd64", "arm64"]).toContain(await running(fixture, "without-choice"));
    await eventually(async () => {
      const { status } = await fixture.readPod("none");
      expect(status?.conditions).toContainEqual(
        expect.objectContaining({
          type: ARCHITECTURE_CONDITION,
          status: "False",
          reason: "RequiredArchitectureConflict",
        }),
      );
    });
  });
});

describe("DaemonSets", () => {
  it("A-B7 tolerate first, then nodes are tainted; new nodes get their pods, where the images run", async () => {
    await using own = await startRegistry();
    await using fixture = await createArchitectureFixture(cluster, "agents", [registry, own]);
    const clock = createLeapingClock();
    for (const architecture of ["amd64", "arm64"]) await addNode(fixture, architecture);
    await cluster.client.create(
      daemonSets,
      agent(fixture, "agent", await pushed(own, "agent:1", "amd64", "arm64")),
    );
    // It waits for a node that is large enough, from before Berth on.
    await fixture.create(fixture.pod("large").image(images.all).requesting({ cpu: "1000" }));
    await agentsOn(fixture, "agent", ["amd64", "arm64"]);
    await own.stop();
    await fixture.policy("all", { mode: "Taint" });
    await using order = await firstVersions(fixture);
    await fixture.start({ clock });
    await eventually(async () =>
      expect(await fixture.status("all")).toMatchObject({
        phase: "Bootstrapping",
        firstUncovered: [`DaemonSet ${fixture.name}/agent`],
      }),
    );
    await fixture.tolerating("large", ARCHITECTURES);
    for (const node of ["amd64", "arm64"]) await fixture.tainted(node, []);
    await own.start();
    await eventually(async () => {
      await clock.leap(10_000);
      expect((await fixture.status("all")).phase).toBe("Tainting");
    });
    for (const node of ["amd64", "arm64"]) await fixture.tainted(node, [node]);
    const { tolerating, tainted } = await order.end();
    expect([...tolerating.keys()].toSorted()).toEqual(["DaemonSet agent", "Pod large"]);
    for (const [what, version] of tolerating)
      for (const [node, later] of tainted) expect([what, node, version < later]).toEqual([what, node, true]);

    await addNode(fixture, "arm64", "later-arm64");
    await fixture.tainted("later-arm64", ["arm64"]);
    await agentsOn(fixture, "agent", ["amd64", "arm64", "later-arm64"]);
    const { spec } = await cluster.client.get(daemonSets, { namespace: fixture.name, name: "agent" });
    expect(spec?.template.spec?.tolerations).toEqual(tolerationsFor(["amd64", "arm64"]));

    // The image of the first does not run there, but that of the second does.
    await addTaintedNode(fixture, "s390x");
    await cluster.client.create(daemonSets, agent(fixture, "everywhere", images.all));
    await agentsOn(fixture, "everywhere", ["amd64", "arm64", "later-arm64", "s390x"]);
    await agentsOn(fixture, "agent", ["amd64", "arm64", "later-arm64"]);
  });
});

function agent({ name: namespace }: ArchitectureFixture, name: string, image: string): DaemonSet {
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
async function agentsOn(
  fixture: ArchitectureFixture,
  name: string,
  wanted: readonly string[],
): Promise<void> {
  await eventually(
    async () => {
      const { items } = await cluster.client.list(pods, {
        namespace: fixture.name,
        labelSelector: `agent=${name}`,
      });
      const found = items.map(({ spec, status }) => `${spec?.nodeName} ${status?.phase}`);
      expect(found.toSorted()).toEqual(wanted.map((node) => `${fixture.nodeName(node)} Running`).toSorted());
    },
    { timeoutMs: 60_000 },
  );
}

describe("the change of mode", () => {
  it("from Taint by Both to Affinity, and back, leaves no pod where its images do not run, and none waiting", async () => {
    await using fixture = await createArchitectureFixture(cluster, "changing", [registry]);
    for (const architecture of ARCHITECTURES) await addNode(fixture, architecture);
    await fixture.policy("all", { mode: "Taint", maxHold: "5m" });
    await fixture.start({ asked: "Ignore" });
    await fixture.asking();
    for (const architecture of ARCHITECTURES) await fixture.tainted(architecture, [architecture]);
    await using users = createUsers(fixture, async (at) => {
      const kind = (["amd64", "arm64", "s390x", "pair"] as const)[at % 4] ?? "pair";
      const allowed = kind === "pair" ? ["amd64", "arm64"] : [kind];
      const image = at % 3 === 0 ? await pushed(registry, `new/app-${at}:1`, ...allowed) : images[kind];
      return { image, allowed };
    });
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
        expect(await fixture.status("all")).toMatchObject({
          observedGeneration: metadata?.generation,
          phase,
        }),
      );
      for (const node of ARCHITECTURES) await fixture.tainted(node, mode === "Affinity" ? [] : [node]);
      await users.settled();
    };
    await settledIn("Taint");
    for (const mode of ["Both", "Affinity", "Both", "Taint"] as const) {
      await changeTo(mode);
      await settledIn(mode);
    }
    await users[Symbol.asyncDispose]();
    const told = await fixture.podEvents();
    for (const failure of ["NoCommonArchitecture", "HoldExpired", "PodPatchRefused"])
      expect(told).not.toContain(failure);
  });
});

describe("berth clean", () => {
  it("A-P12 A-B10 takes taints off, and restarts pods if asked to: by eviction, within their disruption budget", async () => {
    await using fixture = await createArchitectureFixture(cluster, "cleaned", [registry]);
    const { name: namespace } = fixture;
    for (const architecture of ["amd64", "arm64"]) await addNode(fixture, architecture);
    const { berth } = await fixture.start({ config: [{ path: DROP_IN, shown: "drop-in" }] });
    for (const node of ["amd64", "arm64"]) await fixture.tainted(node, [node]);
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
    await fixture.create(fixture.pod("bare").image(images.pair));
    const web = async (): Promise<readonly Pod[]> =>
      (await cluster.client.list(pods, { namespace, labelSelector: "app=web" })).items;
    const runningWith = (values: readonly string[]): Promise<readonly string[]> =>
      patiently(async () => {
        const found = await web();
        expect(found.map(({ status }) => status?.phase)).toEqual(["Running", "Running"]);
        for (const pod of found) expect(tolerationsOf(pod)).toEqual(tolerationsFor(values));
        return found.map(({ metadata }) => metadata?.uid ?? "");
      });
    const before = await runningWith(["amd64", "arm64"]);
    await running(fixture, "bare");
    await patiently(async () => {
      const { status } = await cluster.client.get(podDisruptionBudgets, { namespace, name: "web" });
      expect(status?.disruptionsAllowed).toBe(1);
    });
    await berth[Symbol.asyncDispose]();
    const kubeconfig = await fixture.file("kubeconfig", cluster.kubeconfig());
    const clean = ["clean", "--capability", "architecture", "--yes", "-kubeconfig", kubeconfig.path];
    const mark = await cluster.audit.mark();
    await runCommand(...clean);
    for (const node of ["amd64", "arm64"]) await fixture.tainted(node, []);
    expect(await fixture.podWrites(mark)).toEqual([]);
    await runCommand(...clean, "--restart-pods");
    const after = await runningWith([]);
    expect(after.filter((uid) => before.includes(uid))).toEqual([]);
    expect(tolerationsOf(await fixture.readPod("bare"))).toEqual(tolerationsFor(["amd64", "arm64"]));
    const writes = await fixture.podWrites(mark);
    expect(writes.filter((it) => it === "create eviction 201")).toHaveLength(2);
    expect(writes.filter((it) => !it.startsWith("create eviction "))).toEqual([]);
  });
});
