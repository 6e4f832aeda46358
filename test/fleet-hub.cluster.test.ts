/**
 * A hub with two cells in Dallas and one in Chicago: four control planes, `berth run` in each. The hub is the project as
 * well. kwok plays the kubelets.
 */
import { deepStrictEqual, ok } from "node:assert";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout } from "node:timers/promises";
import { instances, withdrawals, workloadDeployments, workloads } from "@berth/fleet";
import {
  events,
  namespaces,
  type Pod,
  podDisruptionBudgets,
  pods,
  secrets,
  validatingWebhookConfigurations,
} from "@berth/kube";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { locations, networks } from "../packages/fleet/src/api/networking.ts";
import { installCrds, networkingCrds } from "../packages/fleet/src/testing/fixture-crds.ts";
import { networkHands } from "../packages/fleet/src/testing/network-hands.ts";
import {
  aLocation,
  aWorkload,
  changeWorkload,
  conditionOf,
  createWorkload,
  followInstances,
  imageChange,
  scaleChange,
  verdict,
} from "./fleet-fixture.ts";
import { attackAsCell, attackAsProject } from "./hostile/fleet-tenants.ts";
import { type HubFixture, hubFixture } from "./hub-fixture.ts";
import { patiently } from "./patience.ts";
import { backUp } from "./plane-backup.ts";

let fixture: HubFixture;
beforeAll(async () => {
  fixture = await hubFixture();
});
afterAll(() => fixture[Symbol.asyncDispose]());

async function inTwoCities(namespace: string, replicas = 2): Promise<void> {
  await fixture.hub.create(namespaces, { metadata: { name: namespace } });
  await createWorkload(fixture.hub, { namespace, name: namespace, cities: ["DFW", "ORD"], replicas });
  await patiently(async () => deepStrictEqual((await statusOf(namespace))?.readyReplicas, 2 * replicas));
}

async function statusOf(name: string) {
  return (await fixture.hub.get(workloads, { namespace: name, name })).status;
}

const of = (all: readonly string[], name: string): readonly string[] =>
  all.filter((it) => it.includes(`/${name}-`));
const isReady = ({ metadata, status }: Pod, name: string): boolean =>
  metadata?.name?.startsWith(`${name}-`) === true &&
  status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") === true;
const cellsOf = (all: readonly string[]): readonly string[] => [
  ...new Set(all.map((it) => it.split("/")[0] ?? "")),
];

describe("A1 A3 a Workload to two cities", () => {
  it("runs in one cell of each, and its numbers and Instances are those of the cells", async () => {
    await inTwoCities("first");
    const running = of(await fixture.running(), "first");
    expect(running).toHaveLength(4);
    const [dfw = "", ord = "", ...others] = cellsOf(running);
    expect([dfw.slice(0, 4), ord, others]).toEqual(["dfw-", "ord-01", []]);
    const { deployments, replicas, updatedReplicas, observedGeneration, placements } =
      (await statusOf("first")) ?? {};
    expect({ deployments, replicas, updatedReplicas, observedGeneration }).toEqual({
      deployments: 2,
      replicas: 4,
      updatedReplicas: 4,
      observedGeneration: 1,
    });
    expect(placements).toMatchObject([{ name: "us", readyReplicas: 4 }]);
    await patiently(async () =>
      expect(await fixture.shown("first")).toEqual(
        ["dfw-0", "dfw-1", "ord-0", "ord-1"].map((it) => `first-us-${it}`),
      ),
    );
  });

  it("H25 a hub that is the project federates none of its own copies", async () => {
    const { items } = await fixture.hub.list(workloadDeployments);
    const hubNamespaces = new Set(
      items.flatMap(({ metadata }) => metadata?.namespace ?? []).filter((it) => it.startsWith("ns-")),
    );
    for (const { metadata } of items.filter((it) => hubNamespaces.has(it.metadata?.namespace ?? "")))
      expect(metadata?.finalizers).toEqual(["berth.dev/direct"]);
  });
});

it("A8 A9 A10 a Workload grows, rolls and leaves a city in its cells, and the project sees it", async () => {
  const { hub } = fixture;
  const name = "changing";
  const change = (spec: object) => changeWorkload(hub, name, spec, name);
  const isReady = (count: number) =>
    patiently(async () => {
      const { metadata, status } = await hub.get(workloads, { namespace: name, name });
      deepStrictEqual(
        [status?.observedGeneration, status?.replicas, status?.updatedReplicas, status?.readyReplicas],
        [metadata?.generation, count, count, count],
      );
      deepStrictEqual((await fixture.shown(name)).length, count);
    });
  const uidOf = async (instance: string) =>
    (await hub.get(instances, { namespace: name, name: instance })).metadata?.uid;
  await inTwoCities(name);
  const first = await uidOf("changing-us-ord-0");
  const { namespace = "" } = (await fixture.onHub("changing-us-ord"))?.metadata ?? {};
  await using history = await followInstances(fixture.plane("ord-01").client, namespace);
  await change(scaleChange(3, ["DFW", "ORD"]));
  await isReady(6);
  expect(await uidOf("changing-us-ord-0")).toBe(first);
  await change(imageChange("registry.test/web:2"));
  await isReady(6);
  const gone = () => history.steps.filter((step) => step.startsWith("gone "));
  expect([history.mostDown, gone()]).toEqual([
    1,
    [2, 1, 0].map((ordinal) => `gone changing-us-ord-${ordinal}`),
  ]);
  await change(scaleChange(1));
  await isReady(1);
  expect(of(await fixture.running(), name)).toEqual([
    expect.stringMatching(/^dfw-0[12]\/changing-us-dfw-0 registry\.test\/web:2$/),
  ]);
  await patiently(async () => deepStrictEqual(await fixture.onHub("changing-us-ord"), undefined));
  // Their watch is another one than that of the hub.
  await patiently(async () =>
    deepStrictEqual(
      gone().slice(3).toSorted(),
      [0, 1, 2].map((ordinal) => `gone changing-us-ord-${ordinal}`),
    ),
  );
});

describe("8.7 the API server of the hub asks Berth", () => {
  const first = { namespace: "first", name: "first-us-dfw" };
  const annotated = (key: string) =>
    ({ type: "merge", body: { metadata: { annotations: { [key]: "x" } } } }) as const;
  const managed = { failure: { kind: "forbidden" }, message: expect.stringContaining("managed by compute") };

  it("A5 and refuses a Workload with all its faults", async () => {
    const annotations = { "compute.datumapis.com/mine": "x" };
    const broken = {
      namespace: "first",
      name: "broken",
      cities: ["DFW", "D F W"],
      metadata: { annotations },
    };
    const causes = [
      "spec.placements[0].cityCodes[1]",
      "spec.template.metadata.annotations[compute.datumapis.com/mine]",
    ];
    await expect(createWorkload(fixture.hub, broken)).rejects.toMatchObject({
      failure: { kind: "invalid", causes: causes.map((field) => ({ field })) },
    });
  });

  it("3.3 and refuses what Berth alone writes, in the project and in the namespaces of the hub", async () => {
    const { hub } = fixture;
    const { metadata } = (await fixture.onHub("first-us-dfw")) ?? {};
    for (const namespace of ["first", metadata?.namespace ?? ""])
      await expect(
        hub.patch(workloadDeployments, { ...first, namespace }, annotated("berth.dev/placement")),
      ).rejects.toMatchObject(managed);
    await expect(hub.delete(instances, { ...first, name: "first-us-dfw-0" })).rejects.toMatchObject(managed);
    await hub.patch(workloadDeployments, first, annotated("example.com/team"));
  });
});

it("A20 a deletion while a cell is away leaves a Withdrawal, and is carried out when the cell is back", async () => {
  await inTwoCities("away", 1);
  const pid = fixture.plane("ord-01").pidOf("kube-apiserver");
  ok(pid !== undefined, "the API server of ord-01 does not run");
  process.kill(pid, "SIGSTOP");
  try {
    await changeWorkload(fixture.hub, "first", imageChange("registry.test/web:2"), "first");
    await patiently(async () => deepStrictEqual(await fixture.reachable("ord-01"), "False/Silent"));
    await patiently(async () => {
      const status = await statusOf("first");
      deepStrictEqual([status?.readyReplicas, status?.unheard], [4, 2]);
      deepStrictEqual(conditionOf({ status } as never, "Stale")?.reason, "CellUnreachable");
    });
    await fixture.hub.delete(workloads, { namespace: "away", name: "away" });
    await patiently(async () => {
      deepStrictEqual(await fixture.onHub("away-us-ord"), undefined);
      deepStrictEqual((await fixture.hub.list(workloads, { namespace: "away" })).items, []);
    });
    const { items } = await fixture.hub.list(withdrawals);
    expect(items.map(({ spec }) => spec)).toContainEqual(
      expect.objectContaining({ cell: "ord-01", name: "away-us-ord", epoch: 1 }),
    );
  } finally {
    process.kill(pid, "SIGCONT");
  }
  // Berth in the cell has lost its Lease meanwhile, and starts again by itself.
  await patiently(async () => {
    const running = await fixture.running();
    deepStrictEqual(of(running, "away"), []);
    deepStrictEqual(await fixture.shown("away"), []);
    deepStrictEqual(
      of(running, "first").map((it) => it.split(" ")[1]),
      Array.from({ length: 4 }, () => "registry.test/web:2"),
    );
    const status = await statusOf("first");
    deepStrictEqual([status?.readyReplicas, status?.updatedReplicas, status?.unheard], [4, 4, undefined]);
  });
});

it("R25 a hub that starts again goes on where it was, and writes nothing at rest", async () => {
  const { hub } = fixture;
  await patiently(async () => {
    deepStrictEqual(await fixture.reachable("ord-01"), "True/Heard");
    deepStrictEqual((await hub.list(workloads, { namespace: "away" })).items, []);
  });
  await createWorkload(hub, { namespace: "first", name: "canary" });
  const hasRolled = (image: string): Promise<void> =>
    patiently(async () => {
      const { status } = await hub.get(workloads, { namespace: "first", name: "canary" });
      deepStrictEqual([status?.readyReplicas, status?.updatedReplicas], [1, 1]);
      const running = of(await fixture.running(), "canary").map((it) => it.split(" ")[1]);
      deepStrictEqual(running, [image]);
    });
  await hasRolled("registry.test/web:1");
  const before = await fixture.onHub("first-us-dfw");
  const mark = await fixture.plane("hub").audit.mark();
  await fixture.stopHub();
  await whileTheHubIsDown();
  await fixture.startHub();
  await patiently(async () => deepStrictEqual(await fixture.reachable("dfw-01"), "True/Heard"));
  await hasRolled("registry.test/web:9");
  expect(await fixture.onHub("first-us-dfw")).toEqual(before);
  const entries = await fixture.plane("hub").audit.entriesSince(mark, { userAgent: "berth/" });
  const written = entries
    .filter(
      ({ verb, resource, name }) =>
        ["create", "patch", "update", "delete"].includes(verb) &&
        // A question writes nothing. Each replica of the test has an address, and the one that leads writes its own.
        !/^(?:leases|events|selfsubjectreviews|validatingwebhookconfigurations)\./.test(resource) &&
        !name.startsWith("canary"),
    )
    .map((it) => `${it.verb} ${it.resource}/${it.subresource} ${it.namespace}/${it.name}`);
  expect(written).toEqual([]);
});

/** As `when-berth-is-down.md` says: cells replace what ends, and Workloads can be changed once nothing asks the hub. */
async function whileTheHubIsDown(): Promise<void> {
  const { hub } = fixture;
  const name = "canary-us-dfw-0";
  const cell = fixture.plane(cellsOf(of(await fixture.running(), "canary"))[0] ?? "").client;
  const podOf = async (): Promise<Pod | undefined> =>
    (await cell.list(pods)).items.find(({ metadata }) => metadata?.name === name);
  const { metadata: { uid, namespace = "" } = {} } = (await podOf()) ?? {};
  await cell.delete(pods, { namespace, name });
  await patiently(async () => {
    const pod = await podOf();
    ok(pod !== undefined && pod.metadata?.uid !== uid && isReady(pod, "canary"), "the pod is not replaced");
  });
  const change = () => changeWorkload(hub, "first", imageChange("registry.test/web:9"), "canary");
  await expect(change()).rejects.toThrow("failed calling webhook");
  await hub.delete(validatingWebhookConfigurations, { name: "berth-fleet" });
  await patiently(change);
}

it("a cell whose Berth is down keeps its pods, and changes when it is back", async () => {
  const { hub } = fixture;
  const readyOf = async () => {
    const { status } = await hub.get(workloads, { namespace: "first", name: "first" });
    return [status?.readyReplicas, status?.unheard];
  };
  const inOrd = async () => of(await fixture.running(), "first").filter((it) => it.startsWith("ord-01/"));
  const before = await inOrd();
  await fixture.stopCell("ord-01");
  await patiently(async () => {
    deepStrictEqual(await fixture.reachable("ord-01"), "False/NotRunning");
    deepStrictEqual(await readyOf(), [4, 2]);
  });
  await changeWorkload(hub, "first", imageChange("registry.test/web:3"), "first");
  const [one = ""] = before.map((it) => it.split(/[/ ]/)[1]);
  const { client } = fixture.plane("ord-01");
  const { namespace = "" } = (await fixture.onHub("first-us-ord"))?.metadata ?? {};
  await client.delete(pods, { namespace, name: one });
  await patiently(async () => deepStrictEqual((await inOrd()).length, before.length - 1));
  expect(await inOrd()).toEqual(before.filter((it) => !it.includes(`/${one} `)));
  await fixture.startCell("ord-01");
  await patiently(async () => {
    deepStrictEqual(await readyOf(), [4, undefined]);
    deepStrictEqual(
      (await inOrd()).map((it) => it.split(" ")[1]),
      before.map(() => "registry.test/web:3"),
    );
  });
});

describe("a cell that is drained", () => {
  const DFW = ["dfw-01", "dfw-02"];
  const owned = new AsyncDisposableStack();
  /** Puts the hub back to what it was before the drain. */
  let restore: () => Promise<void>;
  afterAll(() => owned.disposeAsync());
  const cellOf = async (): Promise<string> =>
    (await fixture.onHub("moving-us-dfw"))?.metadata?.labels?.["berth.dev/cell"] ?? "";

  /** Names of what is Ready in Dallas, and Instances that are in both cells: they would have one claim, which has their name. */
  async function inDallas(): Promise<{
    readonly ready: readonly string[];
    readonly twice: readonly string[];
  }> {
    const found = await Promise.all(
      DFW.map(async (cell) => {
        const { client } = fixture.plane(cell);
        const [running, own] = await Promise.all([client.list(pods), client.list(instances)]);
        return {
          ready: running.items.filter((it) => isReady(it, "moving")).map((it) => it.metadata?.name ?? ""),
          names: own.items.map((it) => `${it.metadata?.namespace}/${it.metadata?.name}`),
        };
      }),
    );
    const names = found.flatMap((it) => it.names);
    return {
      ready: found.flatMap((it) => it.ready),
      twice: names.filter((name, at) => names.indexOf(name) !== at),
    };
  }

  /** Looks twice a second, until `until` is over. */
  async function watchDuring(until: Promise<unknown>): Promise<void> {
    const stop = new AbortController();
    const over = until.finally(() => stop.abort());
    while (!stop.signal.aborted) {
      const { ready, twice } = await inDallas();
      const { readyReplicas = 0 } = (await statusOf("moving")) ?? {};
      ok(ready.length >= 3, `only these are ready: ${ready.join(", ")}`);
      ok(readyReplicas >= 3, `the Workload says ${readyReplicas}`);
      deepStrictEqual(twice, []);
      await Promise.race([over, setTimeout(500)]);
    }
    await over;
  }

  it("is left by what runs there, once it is ready in the other one, and by what a budget protects", async () => {
    const { hub } = fixture;
    await hub.create(namespaces, { metadata: { name: "moving" } });
    await createWorkload(hub, { namespace: "moving", name: "moving", replicas: 3 });
    await patiently(async () => deepStrictEqual((await statusOf("moving"))?.readyReplicas, 3));
    const from = await cellOf();
    const namespace = (await fixture.onHub("moving-us-dfw"))?.metadata?.namespace ?? "";
    await fixture.plane(from).client.create(podDisruptionBudgets, {
      metadata: { namespace, name: "never" },
      spec: { maxUnavailable: 0, selector: {} },
    });
    const folder = owned.use(await mkdtempDisposable(path.join(tmpdir(), "berth-backup-"))).path;
    restore = await backUp(fixture.plane("hub"), folder);
    const plan = await fixture.drainCell(from, "--plan");
    expect(plan).toMatch(/moving\/moving-us-dfw +3 Instances +to dfw-0/);
    await watchDuring(
      (async () => {
        expect(await fixture.drainCell(from)).toMatch(new RegExp(`Cell ${from} is drained.\\n$`));
      })(),
    );
    const left = await fixture.plane(from).client.list(workloadDeployments);
    expect(left.items).toEqual([]);
    expect(of(await fixture.running(), "moving").map((it) => it.split(" ")[0])).toEqual(
      [1000, 1001, 1002].map((it) => `${DFW.find((cell) => cell !== from)}/moving-us-dfw-${it}`),
    );
    await patiently(async () =>
      expect(await fixture.shown("moving")).toEqual([1000, 1001, 1002].map((it) => `moving-us-dfw-${it}`)),
    );
    await fixture.undrainCell(from);
  });

  it("is not gone back to by a hub that is put back to before the drain: it deletes nothing, and shows what is", async () => {
    const to = await cellOf();
    const running = await fixture.running();
    const cellNames = [...DFW, "ord-01"];
    const marks = await Promise.all(cellNames.map((cell) => fixture.plane(cell).audit.mark()));
    await fixture.putBack(restore);
    const startedMs = performance.now();
    await watchDuring(
      patiently(async () => {
        const shown = (await fixture.listed()).split("\n").map((line) => line.trim().split(/ +/).join(" "));
        ok(
          shown.some((line) => line.startsWith(`DFW moving moving ${to} 3 3 3 0`)),
          shown.join("\n"),
        );
      }),
    );
    expect(performance.now() - startedMs).toBeLessThan(30_000);
    const deleted = await Promise.all(
      cellNames.map(async (cell, at) => {
        const { audit } = fixture.plane(cell);
        const entries = await audit.entriesSince(marks[at] ?? (await audit.mark()), { verb: "delete" });
        return entries.map(({ resource, namespace, name }) => `${cell} ${resource} ${namespace}/${name}`);
      }),
    );
    expect([deleted.flat(), await fixture.running()]).toEqual([[], running]);
    await patiently(async () =>
      expect(await fixture.shown("moving")).toEqual([1000, 1001, 1002].map((it) => `moving-us-dfw-${it}`)),
    );
  });
});

it("NoMatchingLocation says which city no cell serves", async () => {
  const nowhere = aWorkload({ namespace: "first", name: "nowhere", cities: ["XXX"] });
  // Another replica may have the lead since the hub was put back, and reviews warn once it has read the cells.
  const warned = 'Warning: CityWithoutCell: no cell serves "XXX" yet';
  await patiently(async () => expect(await fixture.apply(nowhere, "--dry-run=server")).toContain(warned));
  await fixture.apply(nowhere);
  await patiently(async () => {
    const workload = await fixture.hub.get(workloads, { namespace: "first", name: "nowhere" });
    expect(verdict(workload, "Available")).toBe("False/NoMatchingLocations");
  });
  const warning = "(CityWithoutCell).\n";
  expect(await fixture.plan(nowhere)).toContain(warning);
  expect(await fixture.plan(nowhere, "--silence", "CityWithoutCell")).not.toContain(warning);
});

it("A24 F5 the hub and its cells use what their manifests permit, and nothing more", async () => {
  await changeWorkload(fixture.hub, "first", scaleChange(2), "canary");
  await fixture.hub.delete(workloads, { namespace: "first", name: "first" });
  await fixture.forgetCell("dfw-02");
  await patiently(async () => {
    const running = of(await fixture.running(), "canary").filter((it) => it.startsWith("dfw-01/"));
    deepStrictEqual([running.length, (await fixture.shown("first")).length], [2, 2]);
  });
  deepStrictEqual(await fixture.refused(), []);
  // Whether an Event is repeated, and a Withdrawal is over, is a matter of time.
  const late = new Set(["patch events.events.k8s.io", "delete withdrawals.berth.dev"]);
  const unused = await fixture.unused("hub", "berth");
  expect(unused.filter((it) => !late.has(it))).toEqual([]);
  // Which of both is read uncached depends on which one was drained.
  const [one = [], other = []] = await Promise.all(
    ["dfw-01", "dfw-02"].map((cell) => fixture.unused(cell, "berth-hub")),
  );
  expect(one.filter((it) => other.includes(it))).toEqual([]);
});

describe("a hostile", () => {
  const canary = async () =>
    (await fixture.hub.get(workloads, { namespace: "first", name: "canary" })).status;

  it("S-18 cell costs others no time and the hub few writes, and reaches nothing that was not placed there", async () => {
    const { hub } = fixture;
    const { metadata } = (await fixture.onHub("canary-us-dfw")) ?? {};
    const cell = metadata?.labels?.["berth.dev/cell"] ?? "";
    const mark = await fixture.plane("hub").audit.mark();
    const startedMs = performance.now();
    const attack = attackAsCell(fixture.plane(cell).client, metadata ?? {}, 60);
    await createWorkload(hub, { namespace: "first", name: "beside", cities: ["ORD"] });
    await patiently(async () => {
      const { status } = await hub.get(workloads, { namespace: "first", name: "beside" });
      deepStrictEqual(status?.readyReplicas, 1);
    });
    await attack;
    const seconds = (performance.now() - startedMs) / 1000;
    const entries = await fixture.plane("hub").audit.entriesSince(mark, { userAgent: "berth/" });
    const written = entries.filter(
      ({ verb, name }) => ["create", "patch", "delete"].includes(verb) && name.startsWith("canary-us-dfw"),
    );
    // Of the deployment on the hub and in the project, and what else was on its way.
    expect(written.length).toBeLessThan(2 * (10 + seconds) + 10);
    expect(written.filter(({ name }) => /-5[0-9]{2}$/.test(name))).toEqual([]);
    const status = (await fixture.onHub("canary-us-dfw"))?.status;
    expect(status?.readyReplicas).toBeLessThanOrEqual(1_000);
    expect(JSON.stringify(status).length).toBeLessThan(64 * 1024);
    await patiently(async () => {
      const { items } = await hub.list(events, { fieldSelector: `regarding.name=${cell}` });
      ok(
        items.some(({ reason }) => reason === "Forged"),
        "nothing says that a deployment was forged",
      );
      deepStrictEqual((await canary())?.readyReplicas, 2);
    });
  });

  it("S-19 project has nothing of another one by copying its marks", async () => {
    const { hub } = fixture;
    const before = await fixture.onHub("canary-us-dfw");
    ok(before, "the hub has no deployment canary-us-dfw");
    const refused = { message: expect.stringContaining("managed by compute") };
    await expect(attackAsProject(hub, before, "evil")).rejects.toMatchObject(refused);
    // Admission lets Berth's own account through.
    await attackAsProject(await fixture.asBerth(), before, "evil-too");
    await createWorkload(hub, { namespace: "evil-too", name: "mine" });
    await patiently(async () => {
      const { status } = await hub.get(workloads, { namespace: "evil-too", name: "mine" });
      deepStrictEqual(status?.readyReplicas, 1);
    });
    const of = { namespace: before.metadata?.namespace ?? "", name: "canary-us-dfw" };
    const { metadata, spec } = await hub.get(workloadDeployments, of);
    expect([metadata?.uid, metadata?.annotations, spec]).toEqual([
      before.metadata?.uid,
      before.metadata?.annotations,
      before.spec,
    ]);
    deepStrictEqual((await canary())?.readyReplicas, 2);
  });
});

it("A18 Instances of a cell without a Location wait, the project says so, and they start when it comes", async () => {
  const { client, audit } = fixture.plane("ord-01");
  const mark = await audit.mark();
  await installCrds(client, networkingCrds);
  await using _hands = await networkHands(client);
  const of = { namespace: "roads", name: "roads" };
  // From then on new Instances there wait for their network.
  await patiently(async () => {
    const entries = await audit.entriesSince(mark, { userAgent: "berth/" });
    const isSeen = entries.some(({ verb, resource }) => verb === "watch" && resource.startsWith("networks."));
    ok(isSeen, "Berth does not watch networks");
  });
  await fixture.hub.create(namespaces, { metadata: { name: "roads" } });
  await createWorkload(fixture.hub, { ...of, cities: ["ORD"] });
  const namespace = await patiently(async () => {
    const { items } = await client.list(workloadDeployments);
    const found = items.find(({ metadata }) => metadata?.name === "roads-us-ord")?.metadata?.namespace;
    ok(found, "the cell does not have the deployment");
    return found;
  });
  await client.create(networks, {
    metadata: { namespace, name: "default" },
    spec: { ipam: { mode: "Auto" } },
  });
  await patiently(async () => {
    const deployment = await fixture.hub.get(workloadDeployments, { ...of, name: "roads-us-ord" });
    expect(verdict(deployment, "Available")).toBe("False/NoMatchingLocation");
    const { spec } = await fixture.hub.get(instances, { ...of, name: "roads-us-ord-0" });
    deepStrictEqual(spec?.controller?.schedulingGates, [{ name: "Network" }]);
  });
  await client.create(locations, aLocation("ord", "ORD", namespace));
  await patiently(async () => deepStrictEqual((await statusOf("roads"))?.readyReplicas, 1));
});

const elsewhere = (hub: string, web: string, shop: string): string => `apiVersion: berth.dev/v1alpha1
kind: Fleet
metadata: { name: fleet }
spec:
  mode: management
  hub: { kubeconfig: ${hub} }
  projects:
    kubeconfigs: [{ path: acme/web, kubeconfig: ${web} }, { path: acme/shop, kubeconfig: ${shop} }]
`;

it("A22 two projects with equal names share a hub elsewhere and its cells, and a hub is no cell", async () => {
  const hub = await fixture.allowHub("dfw-02", "hub");
  const web = await fixture.allowHub("hub", "project");
  await fixture.spawnHub(elsewhere(hub, web, await fixture.allowHub("dfw-02", "project")));
  // Its API server still asks for admission as before.
  await fixture.hub.delete(validatingWebhookConfigurations, { name: "berth-fleet" });
  await patiently(async () => ok(await fixture.says(/Secret berth-fleet-signing is of hub/)));
  // It is meant so.
  const key = { namespace: "berth-system", name: "berth-fleet-signing" };
  await fixture.hub.patch(secrets, key, { type: "merge", body: { data: { hub: null } } });
  await fixture.ready();
  for (const plane of ["hub", "dfw-02"]) {
    const { client } = fixture.plane(plane);
    await client.create(namespaces, { metadata: { name: "equal" } });
    await createWorkload(client, { namespace: "equal", name: "equal", cities: ["DFW"] });
  }
  await patiently(async () => {
    for (const plane of ["hub", "dfw-02"]) {
      const of = { namespace: "equal", name: "equal" };
      const { status } = await fixture.plane(plane).client.get(workloads, of);
      deepStrictEqual(status?.readyReplicas, 1);
    }
  });
  expect(await fixture.explained("equal/equal")).toMatch(/ Cell dfw-01 +heard +it is placed here\n/);
  const { items } = await fixture.plane("dfw-01").client.list(namespaces, {
    labelSelector: "meta.datumapis.com/upstream-namespace=equal",
  });
  expect(
    items.map((it) => it.metadata?.labels?.["meta.datumapis.com/upstream-cluster-name"] ?? "").sort(),
  ).toEqual(["cluster-acme_shop", "cluster-acme_web"]);
  expect(await fixture.reachable("dfw-02")).toBe("False/DuplicateIdentity");
  deepStrictEqual(await fixture.refused(), []);
});
