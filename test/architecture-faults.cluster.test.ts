/**
 * Architecture placement while registries and API servers fail, on the whole product. Running pods are never touched, new
 * ones are decided by the policy, neither registries nor the API server are pressed, and no credential is told to anybody.
 */
import { configMaps, events, type Pod, pods, serviceAccounts } from "@berth/kube";
import { eventually, findFreePort, type PodBuilder, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { listing } from "../packages/cli/src/testing/registries.ts";
import {
  type Fault,
  type FaultRegistry,
  startFaultRegistry,
} from "../packages/registry/src/testing/fault-registry.ts";
import {
  type ArchitectureFixture,
  architecturesOf,
  createArchitectureFixture,
  isHeld,
  sharedArchitectureCluster,
} from "./architecture-fixture.ts";
import { createLeapingClock } from "./clocks.ts";
import { each } from "./each.ts";
import { NAMESPACE } from "./fixture.ts";
import { quickest, RECONNECTED } from "./patience.ts";

const HOUR_MS = 3_600_000;
/** For hundreds of pods at once. */
const BUSY = { timeoutMs: 60_000 };
const BOTH = ["linux/amd64", "linux/arm64"];

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedArchitectureCluster();
});

const numbered = (count: number): readonly number[] => Array.from({ length: count }, (_, at) => at);

function total({ requests }: FaultRegistry): number {
  return Object.values(requests).reduce((sum, count) => sum + count, 0);
}

/** One policy for each label `case`, so that one Berth plays them all. */
async function policies(
  fixture: ArchitectureFixture,
  specs: Readonly<Record<string, object>>,
): Promise<void> {
  for (const [name, spec] of Object.entries(specs))
    await fixture.policy(name, { mode: "Affinity", podSelector: { matchLabels: { case: name } }, ...spec });
}

describe("maxHold", () => {
  it("A-B8 ends the hold as the policy says: released, within the fallback, held on, or closed", async () => {
    await using registry = await startFaultRegistry();
    await using fixture = await createArchitectureFixture(cluster, "max-hold", [registry]);
    const clock = createLeapingClock();
    const fallback = { afterMaxHold: "Fallback", fallbackArchitectures: ["arm64", "amd64"] };
    // Long beside the real time that goes by as well.
    const maxHold = "5m";
    await policies(fixture, {
      release: { maxHold, afterMaxHold: "Release" },
      fallback: { maxHold, ...fallback },
      keep: { maxHold, afterMaxHold: "Keep" },
      closed: { maxHold, unresolvable: "Closed" },
    });
    await fixture.start({ asked: "Ignore", clock });
    await fixture.asking({ case: "keep" });
    registry.index("team/app", "1", BOTH);
    const down = registry.inject({ does: "status", status: 503 });
    const names = ["release", "fallback", "keep", "closed"];
    for (const name of names) {
      const pod = fixture.pod(name).labelled({ case: name }).image(`${registry.host}/team/app:1`);
      expect(isHeld(await fixture.create(pod))).toBe(true);
    }
    await clock.leap(200_000);
    await eventually(() => expect(total(registry)).toBeGreaterThan(1));
    for (const name of names) expect(isHeld(await fixture.readPod(name))).toBe(true);
    await clock.leap(101_000);
    expect(architecturesOf(await fixture.letGo("release"))).toEqual([]);
    expect(architecturesOf(await fixture.letGo("fallback"))).toEqual([["amd64", "arm64"]]);
    for (const name of names) {
      const { note = "" } = await fixture.event("RegistryFailed", name);
      for (const part of ["container main", `${registry.host}/team/app:1`]) expect(note).toContain(part);
    }
    // However often it fails again.
    await clock.leap(600_000);
    for (const name of ["keep", "closed"]) expect(isHeld(await fixture.readPod(name))).toBe(true);
    // What comes back within the hold of the others is still of use to them.
    down[Symbol.dispose]();
    await eventually(async () => {
      await clock.leap(30_000);
      for (const name of ["keep", "closed"]) {
        const pod = await fixture.readPod(name);
        expect([name, isHeld(pod), architecturesOf(pod)]).toEqual([name, false, [["amd64", "arm64"]]]);
      }
    });
    for (const name of names) expect(await fixture.events("RegistryFailed", name)).toHaveLength(1);
  });
});

describe("a registry", () => {
  const cases: readonly (readonly [string, Fault, string])[] = [
    ["refuses", { does: "status", status: 401 }, "RegistryUnauthorized"],
    ["forbids", { does: "status", status: 403 }, "RegistryForbidden"],
    ["limits", { does: "status", status: 429, headers: { "retry-after": "40" } }, "RegistryRateLimited"],
    ["fails", { does: "status", status: 500 }, "RegistryFailed"],
    ["is-silent", { does: "silence" }, "RegistryUnreachable"],
    ["resets", { does: "reset" }, "RegistryUnreachable"],
    ["babbles", { does: "garbage" }, "ImageMalformed"],
    ["tampers", { does: "tamper" }, "ImageMalformed"],
    ["circles", { does: "circle", endless: true }, "ImageMalformed"],
  ];
  /** Of these, in metrics. */
  const OUTCOMES = ["unauthorized", "forbidden", "rateLimited", "serverError", "unreachable", "malformed"];

  it("A-B8 that fails, in whatever way, has pods told of it by its reason, and decided once it is well", async () => {
    await using fixture = await createArchitectureFixture(cluster, "broken");
    const clock = createLeapingClock();
    await fixture.policy("all", { mode: "Affinity", afterMaxHold: "Keep", unresolvable: "Closed" });
    await using registries = new AsyncDisposableStack();
    const failing = new Map<string, FaultRegistry>();
    for (const [name] of cases) failing.set(name, registries.use(await startFaultRegistry()));
    // The network is not hurried by the clock.
    const registriesAt = {
      ...(await listing(...failing.values())),
      tagTtlMs: HOUR_MS,
      alwaysTtlMs: HOUR_MS,
      timeoutMs: 500,
      readMs: 1500,
    };
    const { berth } = await fixture.start({ asked: "Ignore", clock, registries: registriesAt });
    await fixture.asking();
    using faults = new DisposableStack();
    for (const [name, fault] of cases) {
      const registry = failing.get(name);
      if (registry === undefined) throw new Error("no registry");
      registry.index("team/app", "1", BOTH);
      faults.use(registry.inject(fault));
      const stored = await fixture.create(fixture.pod(name).image(`${registry.host}/team/app:1`));
      expect([name, isHeld(stored)]).toEqual([name, true]);
    }
    // One that has not answered by the end of the hold is told of as that first.
    await eventually(async () => {
      await clock.leap(2_000);
      for (const [name, , reason] of cases)
        expect([name, await fixture.events(reason, name)]).toEqual([name, [expect.anything()]]);
    }, BUSY);
    for (const [name] of cases) expect([name, isHeld(await fixture.readPod(name))]).toEqual([name, true]);
    await eventually(async () => {
      const lines = (await berth.metrics.expose()).body.split("\n");
      expect(lines).toContain(`berth_architecture_waiting_pods ${cases.length}`);
      for (const outcome of OUTCOMES)
        expect(lines).toContainEqual(
          expect.stringMatching(`^berth_image_questions_total\\{outcome="${outcome}"\\} [1-9]`),
        );
    });
    faults.dispose();
    await eventually(async () => {
      await clock.leap(20_000);
      for (const [name] of cases) {
        const pod = await fixture.readPod(name);
        expect([name, isHeld(pod), architecturesOf(pod)]).toEqual([name, false, [["amd64", "arm64"]]]);
      }
    });
  });

  it("that is down for an hour costs no running pod anything, and neither it nor the API server is pressed", async () => {
    // Nobody's outgoing connection is given it in the hour.
    const port = await findFreePort();
    const host = `127.0.0.1:${port}`;
    await using fixture = await createArchitectureFixture(cluster, "hour", [{ host }]);
    const clock = createLeapingClock();
    await policies(fixture, {
      release: { afterMaxHold: "Release" },
      keep: { afterMaxHold: "Keep" },
      closed: { unresolvable: "Closed" },
    });
    const running = await fixture.create(fixture.pod("running").on("n1").image(`${host}/team/app-0:1`));
    await fixture.start({ asked: "Ignore", clock });
    await fixture.asking({ case: "keep" });
    const mark = await cluster.audit.mark();
    const asks = (name: string, at: number): PodBuilder =>
      fixture
        .pod(`${name}-${at}`)
        .labelled({ case: name })
        .image(`${host}/team/app-${at % 5}:1`);
    for (const name of ["release", "keep", "closed"])
      await each(numbered(20), (at) => fixture.create(asks(name, at)));
    await clock.leap(HOUR_MS, 500);
    await each(numbered(20), (at) => fixture.letGo(`release-${at}`));
    for (const name of ["keep", "closed"])
      for (const at of numbered(20))
        expect([name, at, isHeld(await fixture.readPod(`${name}-${at}`))]).toEqual([name, at, true]);
    const later = await fixture.create(asks("release", 20));
    expect(isHeld(later)).toBe(true);
    await clock.leap(31_000);
    await fixture.letGo("release-20");
    expect((await fixture.readPod("running")).metadata?.resourceVersion).toBe(
      running.metadata?.resourceVersion,
    );
    const requests = await fixture.requests(mark);
    const count = (verb: string, resource: string): number =>
      requests.filter((it) => it.verb === verb && it.resource === resource).length;
    expect(count("patch", "pods")).toBe(21);
    // Two for each that is still held, as the registry is left alone at times, and one for each that was let go.
    expect(count("create", "events.events.k8s.io")).toBeLessThanOrEqual(2 * 61);
    // Statuses of two policies, and what is read of service accounts and secrets: not once for each pod and minute.
    const others = requests.filter(({ resource }) => !/^(pods|events)/.test(resource));
    expect(others.length).toBeLessThan(4 * 60);
    await using registry = await startFaultRegistry({ port });
    for (const at of numbered(5)) registry.index(`team/app-${at}`, "1", BOTH);
    await eventually(async () => {
      await clock.leap(60_000);
      const { items } = await cluster.client.list(pods, { namespace: fixture.name });
      expect(items.filter(isHeld)).toEqual([]);
    });
    expect(registry.host).toBe(host);
    expect(registry.requests.manifest).toBeLessThanOrEqual(10);
    expect(clock.now() - Date.now()).toBeGreaterThan(HOUR_MS);
  });
});

describe("500 pods at once of 20 images", () => {
  it("A-B5 ask for each manifest at most once, and a Berth that is started again asks nothing", async () => {
    await using registry = await startFaultRegistry({ auth: { scheme: "token", isPublic: () => true } });
    await using fixture = await createArchitectureFixture(cluster, "many", [registry]);
    await fixture.policy("all", { mode: "Affinity", maxHold: "5m" });
    const { berth } = await fixture.start({ asked: "Ignore" });
    await fixture.asking();
    for (const at of numbered(20)) registry.index(`team/app-${at}`, "1", BOTH);
    const mark = await cluster.audit.mark();
    const of = (at: number): PodBuilder =>
      fixture.pod(`app-${at}`).image(`${registry.host}/team/app-${at % 20}:1`);
    await each(numbered(500), (at) => fixture.create(of(at)));
    await eventually(async () => {
      const { items } = await cluster.client.list(pods, { namespace: fixture.name });
      expect(items).toHaveLength(500);
      expect(items.filter(isHeld)).toEqual([]);
      for (const pod of items) expect(architecturesOf(pod)).toEqual([["amd64", "arm64"]]);
    }, BUSY);
    expect(registry.served).toMatchObject({ manifest: 20, blob: 0 });
    expect(registry.requests.manifest).toBeLessThanOrEqual(40);
    expect(registry.requests.token).toBeLessThanOrEqual(20);
    const writes = await fixture.podWrites(mark);
    expect(writes.filter((it) => it !== "patch 200")).toEqual([]);
    expect(writes.length).toBeLessThan(500);
    await berth[Symbol.asyncDispose]();
    registry.forget();
    await fixture.start({ asked: "Ignore" });
    await eventually(async () => {
      const stored = await fixture.create(of(500));
      if (!isHeld(stored) && architecturesOf(stored).length > 0) return;
      await fixture.deletePod("app-500");
      throw new Error("what was known is not known again yet");
    });
    expect(total(registry)).toBe(0);
  });
});

describe("the API server", () => {
  it("A-B9 that is killed and comes back has a new pod seen to within 5 s, and is left alone at rest", async () => {
    await using registry = await startFaultRegistry();
    await using fixture = await createArchitectureFixture(cluster, "restart", [registry]);
    await fixture.policy("all", { mode: "Both", afterMaxHold: "Keep" });
    await fixture.start({ asked: "Ignore" });
    await fixture.asking();
    registry.index("team/app", "1", BOTH);
    const image = `${registry.host}/team/app:1`;
    using down = registry.inject({ does: "status", status: 404 });
    await fixture.create(fixture.pod("before").image(image));
    const seenMs = await quickest(5000, async (attempt) => {
      await cluster.stopComponent("kube-apiserver", "SIGKILL");
      // Whoever knocks without a pause takes a whole core for as long as the start takes, seconds; one that waits, a tenth.
      const cpu = process.cpuUsage();
      const from = performance.now();
      await cluster.startComponent("kube-apiserver");
      const { user, system } = process.cpuUsage(cpu);
      expect((user + system) / 1000 / (performance.now() - from)).toBeLessThan(0.5);
      down[Symbol.dispose]();
      registry.index(`team/later-${attempt}`, "1", BOTH);
      const began = performance.now();
      await fixture.create(fixture.pod(`after-${attempt}`).image(`${registry.host}/team/later-${attempt}:1`));
      await fixture.letGo(`after-${attempt}`, RECONNECTED);
      return performance.now() - began;
    });
    expect(seenMs).toBeLessThan(5000);
    // Its image is asked for again after a while: that would be a write.
    await fixture.deletePod("before");
    await fixture.settled();
    const mark = await cluster.audit.mark();
    await fixture.readPod("after-1");
    expect((await fixture.podWrites(mark)).length).toBe(0);
  });
});

describe("credentials", () => {
  const PASSWORD = "correct-horse-battery";
  const OTHER = "staple-in-the-hay";

  it("A-B4 of pods and their service accounts are used as kubelet uses them, and never told to anybody", async () => {
    const users = { team: PASSWORD, robot: OTHER };
    await using registry = await startFaultRegistry({ auth: { scheme: "token", users } });
    await using basic = await startFaultRegistry({ auth: { scheme: "basic", users } });
    await using fixture = await createArchitectureFixture(cluster, "private", [registry, basic]);
    const clock = createLeapingClock();
    await fixture.policy("all", { mode: "Affinity", unresolvable: "Closed" });
    const { berth, lines } = await fixture.start({ asked: "Ignore", clock });
    await fixture.asking();
    const names = ["without", "wrong", "missing", "right"];
    for (const name of names) registry.index(`team/${name}`, "1", ["linux/arm64"]);
    basic.index("team/app", "1", ["linux/arm64"]);
    await fixture.pullSecret("pull", registry.host, "team", PASSWORD);
    await fixture.pullSecret("wrong", registry.host, "team", "wrong-password");
    await fixture.pullSecret("by-port", `*.0.0.1:${basic.host.split(":")[1]}`, "robot", OTHER);
    const { name: namespace } = fixture;
    await cluster.client.create(
      serviceAccounts,
      { metadata: { name: "robot", namespace }, imagePullSecrets: [{ name: "by-port" }] },
      { namespace },
    );
    // One each: what is known of an image is known to all.
    const withSecrets = (name: string, ...secrets: readonly string[]): PodBuilder =>
      fixture
        .pod(name)
        .image(`${registry.host}/team/${name}:1`)
        .with((pod: Pod) => ({
          ...pod,
          spec: {
            containers: [],
            ...pod.spec,
            imagePullSecrets: secrets.map((secret) => ({ name: secret })),
          },
        }));
    for (const pod of [
      withSecrets("without"),
      withSecrets("wrong", "wrong"),
      withSecrets("missing", "absent"),
      withSecrets("right", "wrong", "pull"),
      fixture.pod("account").serviceAccount("robot").image(`${basic.host}/team/app:1`),
    ])
      await fixture.create(pod);
    for (const name of ["right", "account"])
      expect(architecturesOf(await fixture.letGo(name))).toEqual([["arm64"]]);
    const told = [
      await fixture.event("RegistryUnauthorized", "without"),
      await fixture.event("RegistryUnauthorized", "wrong"),
    ];
    await eventually(async () => {
      await clock.leap(5_000);
      expect(await fixture.events("PullSecretUnreadable", "missing")).toHaveLength(1);
    });
    expect(told[0]?.note).toContain(`${registry.host}/team/without:1`);
    for (const name of ["without", "wrong", "missing"])
      expect(isHeld(await fixture.readPod(name))).toBe(true);

    const { client } = cluster;
    const { body } = await berth.metrics.expose();
    const seen = [
      ...lines,
      body,
      JSON.stringify((await client.list(events, {})).items),
      JSON.stringify(await fixture.status("all")),
      JSON.stringify((await client.list(pods, { namespace })).items),
      JSON.stringify((await client.list(configMaps, { namespace: NAMESPACE })).items),
    ].join("\n");
    const sent = [...registry.seen, ...basic.seen].flatMap(
      ({ authorization = "" }) => authorization.split(" ")[1] ?? [],
    );
    expect(sent.length).toBeGreaterThan(4);
    for (const secret of [PASSWORD, OTHER, "wrong-password", ...sent]) expect(seen).not.toContain(secret);
    // Nor does a registry hear of what is for another.
    const heard = JSON.stringify(registry.seen.map(({ authorization }) => authorization));
    expect(heard).not.toContain(Buffer.from(`robot:${OTHER}`).toString("base64"));
  });
});
