/**
 * Label rules on a real API server. Every test has its own domain of label keys and its own installation name. The
 * helpers are at the end: how the parts are put together for a test, and one test's part of the cluster.
 */
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { defineResource, type KubeClient, type KubeObject, type Node, nodes } from "@berth/kube";
import {
  clusterName,
  createController,
  createInformer,
  createSilentLogger,
  type EventInput,
  keyOf,
  systemClock,
  toSelf,
  watchFolder,
  watchFor,
} from "@berth/runtime";
import { type AuditMark, aNode, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { nodeMarksChanged } from "../node/predicate.ts";
import { bindLabels } from "../node/testing/labels.ts";
import { type NodeApi, NodeWriter } from "../node/writer.ts";
import { type LabelRules, parseLabelFolder, type RuleProblem } from "./index.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedTestCluster();
});

const scene = (name: string): Scene => setScene(cluster, name);

describe("label rules on a cluster", () => {
  it("L-P1, L-P3 labels the nodes that match in one patch each, and writes no other", async () => {
    const { key, run, create, expectLabels, labels, mark, patches } = scene("p1");
    await create("match", { [key("usb")]: "true" });
    await create("other", { [key("else")]: "true" });
    await using folder = await makeRuleFolder({ [key("edgetpu")]: `${key("pci")}\n${key("usb")}\n` });
    const start = await mark();
    await using _labels = await run(folder.path);
    await expectLabels("match", { usb: "true", edgetpu: "true" });
    await create("late", { [key("pci")]: "0" });
    await expectLabels("late", { pci: "0", edgetpu: "true" });
    expect(await labels("other")).toEqual({ else: "true" });
    expect(await patches(start)).toBe(2);
  });

  it("L-P2, L-P9 follows the labels of the node, and sets its own label back", async () => {
    const { key, run, create, label, expectLabels } = scene("p2");
    await using folder = await makeRuleFolder({ [key("out")]: key("in") });
    await using running = await run(folder.path);
    await create("n", { [key("in")]: "1" });
    await expectLabels("n", { in: "1", out: "true" });
    await label("n", { [key("out")]: null });
    await expectLabels("n", { in: "1", out: "true" });
    await label("n", { [key("out")]: "no" });
    await expectLabels("n", { in: "1", out: "true" });
    await label("n", { [key("in")]: null });
    await expectLabels("n", {});
    await eventually(() => {
      expect(running.events.map(({ reason }) => reason)).toEqual(["ValueRestored", "InputGone"]);
    });
  });

  it("L-P4, L-P5, L-P6, L-P7, L-P8, L-B7 follows the folder without a restart, down to its last file", async () => {
    const { key, run, create, expectLabels } = scene("p4");
    await using folder = await makeRuleFolder();
    await using running = await run(folder.path);
    await create("n", { [key("in")]: "1" });
    await folder.write(key("a"), key("in"));
    await expectLabels("n", { in: "1", a: "true" });
    await folder.write(key("b"), `${key("other")}\n`);
    await folder.write(key("a"), `${key("other")}\n`);
    await expectLabels("n", { in: "1" });
    await folder.write(key("b"), `${key("other")}\n${key("in")}`);
    await expectLabels("n", { in: "1", b: "true" });
    await rename(join(folder.path, key("b")), join(folder.path, key("c")));
    await expectLabels("n", { in: "1", c: "true" });
    await folder.remove("p4.example.com");
    await expectLabels("n", { in: "1" });
    await folder.write(key("again"), key("in"));
    await expectLabels("n", { in: "1", again: "true" });
    expect(running.problems).toEqual([]);
  });

  it("L-P10 leaves a foreign label alone until its rule matches", async () => {
    const { key, run, create, label, expectLabels, labels, mark, patches } = scene("p10");
    await create("n", { [key("out")]: "theirs" });
    await create("seen", { [key("in")]: "1" });
    await using folder = await makeRuleFolder({ [key("out")]: key("in") });
    const start = await mark();
    await using _labels = await run(folder.path);
    await expectLabels("seen", { in: "1", out: "true" });
    expect(await labels("n")).toEqual({ out: "theirs" });
    expect(await patches(start, "n")).toBe(0);
    await label("n", { [key("in")]: "1" });
    await expectLabels("n", { in: "1", out: "true" });
    await label("n", { [key("in")]: null });
    await expectLabels("n", {});
  });

  it("L-P13 settles a chain of rules in one patch", async () => {
    const { key, run, create, label, expectLabels, mark, patches } = scene("p13");
    await using folder = await makeRuleFolder({
      [key("c")]: key("b"),
      [key("b")]: key("a"),
      [key("a")]: key("in"),
    });
    await using _labels = await run(folder.path);
    const start = await mark();
    await create("n", { [key("in")]: "1" });
    await expectLabels("n", { in: "1", a: "true", b: "true", c: "true" });
    await label("n", { [key("in")]: null });
    await expectLabels("n", {});
    expect(await patches(start)).toBe(2);
  });

  it("writes nothing after a restart on a settled cluster", async () => {
    const { key, run, create, expectLabels, mark, patches } = scene("rest");
    await create("n", { [key("in")]: "1" });
    await using folder = await makeRuleFolder({ [key("out")]: key("in") });
    {
      await using _first = await run(folder.path);
      await expectLabels("n", { in: "1", out: "true" });
    }
    const start = await mark();
    await using _second = await run(folder.path);
    await create("after", { [key("in")]: "1" });
    await expectLabels("after", { in: "1", out: "true" });
    expect(await patches(start, "n")).toBe(0);
  });

  it("L-B1 clears labels whose input or rule went away while nobody was running", async () => {
    const { key, run, create, label, expectLabels } = scene("b1");
    await create("n", { [key("in")]: "1", [key("too")]: "1" });
    await using folder = await makeRuleFolder({ [key("a")]: key("in"), [key("b")]: key("too") });
    {
      await using _first = await run(folder.path);
      await expectLabels("n", { in: "1", too: "1", a: "true", b: "true" });
    }
    await label("n", { [key("in")]: null });
    await folder.remove(key("b"));
    await using second = await run(folder.path);
    await expectLabels("n", { too: "1" });
    await eventually(() => {
      expect(second.events.map(({ reason }) => reason)).toEqual(["InputGone", "RuleGone"]);
    });
  });

  it("L-B2 follows a mounted ConfigMap through its symlink swap, without a flap", async () => {
    const { key, run, create, expectLabels, labels, mark, patches } = scene("b2");
    await create("n", { [key("in")]: "1" });
    await using folder = await makeRuleFolder();
    const publish = async (version: string, files: Readonly<Record<string, string>>): Promise<void> => {
      await mkdir(join(folder.path, `..${version}`, "b2.example.com"), { recursive: true });
      for (const [file, text] of Object.entries(files))
        await writeFile(join(folder.path, `..${version}`, file), text);
      await symlink(`..${version}`, join(folder.path, "..data_tmp"));
      await rename(join(folder.path, "..data_tmp"), join(folder.path, "..data"));
    };
    await publish("2026_01", { [key("a")]: key("in"), [key("stays")]: key("in") });
    await symlink("..data/b2.example.com", join(folder.path, "b2.example.com"));
    await using running = await run(folder.path);
    await expectLabels("n", { in: "1", a: "true", stays: "true" });
    const start = await mark();
    await publish("2026_02", { [key("b")]: key("in"), [key("stays")]: key("in") });
    await rm(join(folder.path, "..2026_01"), { recursive: true });
    await expectLabels("n", { in: "1", b: "true", stays: "true" });
    // A file that is gone is believed a moment after one that is there, so this may be two patches.
    expect(await patches(start)).toBeLessThanOrEqual(2);
    await eventually(() => {
      const removed = running.events.map(({ reason, note }) => `${reason} ${note.split(" ")[0]}`);
      expect(removed).toEqual([`RuleGone label/${key("a")}`]);
    });
    expect(running.problems).toEqual([]);
    expect(await labels("n")).toEqual({ in: "1", b: "true", stays: "true" });
  });

  it("L-B3 goes on with all other rules beside a bad file", async () => {
    const { key, run, create, expectLabels } = scene("b3");
    await create("n", { [key("in")]: "1" });
    const bad = [`${key("a")}/b`, key(".x.swp"), key("x".repeat(64)), "foo~"];
    await using folder = await makeRuleFolder({
      ...Object.fromEntries(bad.map((file) => [file, key("in")])),
      [key("good")]: key("in"),
    });
    await using running = await run(folder.path);
    await expectLabels("n", { in: "1", good: "true" });
    expect(running.problems.map(({ file, reason }) => `${file} ${reason}`).sort()).toEqual(
      bad.map((file) => `${file} InvalidLabelKey`).sort(),
    );
  });

  it("L-B3 lands all other labels when the server's own policy refuses one", async () => {
    const { key, nodeName, run, create, label, expectLabels } = scene("policy");
    await create("n");
    await using _policy = await forbidLabel(key("refused"));
    const probe = { type: "merge", body: { metadata: { labels: { [key("refused")]: "probe" } } } } as const;
    await eventually(async () => {
      const refused = cluster.client.patch(nodes, { name: nodeName("n") }, probe, { dryRun: true });
      await expect(refused).rejects.toMatchObject({ failure: { kind: "invalid" } });
    });
    await using folder = await makeRuleFolder(
      Object.fromEntries(["a", "b", "refused", "z"].map((of) => [key(of), key("in")])),
    );
    await using running = await run(folder.path);
    await label("n", { [key("in")]: "1" });
    await expectLabels("n", { in: "1", a: "true", b: "true", z: "true" });
    await eventually(() => {
      const refused = running.events.filter(({ reason }) => reason === "WriteRefused");
      expect(refused.map(({ note }) => note.includes(key("refused")))).toEqual([true]);
    });
  });

  it("L-B4 clears the label although somebody else was faster", async () => {
    const { key, run, create, label, expectLabels, mark } = scene("b4");
    let meddle = 0;
    await using folder = await makeRuleFolder({ [key("out")]: key("in") });
    await using _labels = await run(folder.path, {
      beforePatch: async (name) => {
        if (meddle === 0) return;
        meddle -= 1;
        const body = { metadata: { annotations: { meddled: String(meddle) } } };
        await cluster.client.patch(nodes, { name }, { type: "merge", body });
      },
    });
    await create("n", { [key("in")]: "1" });
    await expectLabels("n", { in: "1", out: "true" });
    meddle = 3;
    const start = await mark();
    await label("n", { [key("in")]: null });
    await expectLabels("n", {});
    const of = { verb: "patch", resource: "nodes", name: "b4-n", userAgent: agentOf("b4") };
    expect(await cluster.audit.countSince(start, { ...of, code: 409 })).toBe(3);
    expect(await cluster.audit.countSince(start, { ...of, code: 200 })).toBe(1);
  });

  it("L-B5 makes one pass of a storm of saves, and never takes a save in progress for an empty rule", async () => {
    const { key, run, create, expectLabels, labels, mark, patches } = scene("b5");
    await using folder = await makeRuleFolder({ [key("out")]: key("in") });
    // No save takes that long, also on a machine that stands still in the middle of one.
    await using _labels = await run(folder.path, { settleMs: 60_000 });
    await create("n", { [key("in")]: "1" });
    await create("other", { [key("new")]: "1" });
    await expectLabels("n", { in: "1", out: "true" });
    const start = await mark();
    for (let save = 0; save < 20; save += 1) {
      await folder.write(key("out"), "");
      await folder.write(key("out"), `${key("in")}\n${save === 19 ? key("new") : key(`old${save}`)}\n`);
    }
    await expectLabels("other", { new: "1", out: "true" });
    expect(await labels("n")).toEqual({ in: "1", out: "true" });
    expect(await patches(start, "n")).toBe(0);
    expect(await patches(start, "other")).toBe(1);
  });

  it("L-B10 writes exactly the nodes that a new rule matches", async () => {
    const { key, run, create, expectLabels, mark, patches } = scene("b10");
    const all = Array.from({ length: 80 }, (_, index) => index);
    await Promise.all(all.map((index) => create(`n${index}`, { [key(index < 50 ? "in" : "else")]: "1" })));
    await using folder = await makeRuleFolder({ [key("old")]: key("nothing") });
    await using _labels = await run(folder.path);
    const start = await mark();
    await folder.write(key("out"), key("in"));
    await Promise.all(all.slice(0, 50).map((index) => expectLabels(`n${index}`, { in: "1", out: "true" })));
    expect(await patches(start)).toBe(50);
  });

  it("labels a node that was deleted and made again under its name", async () => {
    const { key, run, create, nodeName, expectLabels, mark, patches } = scene("again");
    await using folder = await makeRuleFolder({ [key("out")]: key("in") });
    await using _labels = await run(folder.path);
    const start = await mark();
    for (let life = 0; life < 3; life += 1) {
      await create("n", { [key("in")]: "1" });
      await expectLabels("n", { in: "1", out: "true" });
      await cluster.client.delete(nodes, { name: nodeName("n") });
    }
    expect(await patches(start)).toBe(3);
  });
});

interface WithSpec extends KubeObject {
  readonly spec: object;
}

const group = { group: "admissionregistration.k8s.io", version: "v1", namespaced: false };
const policies = defineResource<WithSpec>({
  ...group,
  plural: "validatingadmissionpolicies",
  kind: "ValidatingAdmissionPolicy",
});
const policyBindings = defineResource<WithSpec>({
  ...group,
  plural: "validatingadmissionpolicybindings",
  kind: "ValidatingAdmissionPolicyBinding",
});

/** From now on the server refuses (422) every update of a node that leaves this label on it. */
async function forbidLabel(key: string): Promise<AsyncDisposable> {
  const name = `no-${key.replaceAll("/", "-")}`;
  const resourceRules = [
    { apiGroups: [""], apiVersions: ["v1"], operations: ["UPDATE"], resources: ["nodes"] },
  ];
  await cluster.client.create(policies, {
    metadata: { name },
    spec: {
      matchConstraints: { resourceRules },
      validations: [
        { expression: `!has(object.metadata.labels) || !(${JSON.stringify(key)} in object.metadata.labels)` },
      ],
    },
  });
  await cluster.client.create(policyBindings, {
    metadata: { name },
    spec: { policyName: name, validationActions: ["Deny"] },
  });
  return {
    async [Symbol.asyncDispose]() {
      await cluster.client.delete(policyBindings, { name });
      await cluster.client.delete(policies, { name });
    },
  };
}

type Labels = Readonly<Record<string, string>>;

/** One test's part of a shared cluster: its nodes, label keys and installation carry its name. */
interface Scene {
  readonly key: (name: string) => string;
  readonly nodeName: (node: string) => string;
  readonly run: (folder: string, more?: Partial<RunLabelsOptions>) => Promise<RunningLabels>;
  readonly create: (node: string, labels?: Labels) => Promise<void>;
  /** Another writer's edit. */
  readonly label: (node: string, labels: Readonly<Record<string, string | null>>) => Promise<void>;
  /** Those of the scene's domain, without the domain. */
  readonly labels: (node: string) => Promise<Labels>;
  readonly expectLabels: (node: string, expected: Labels) => Promise<void>;
  readonly mark: () => Promise<AuditMark>;
  /** How many patches of nodes the tested product sent since then: all, or of one node. */
  readonly patches: (since: AuditMark, node?: string) => Promise<number>;
}

/** The user agent of what runs in a scene. */
function agentOf(name: string): string {
  return `berth-under-test-${name}/`;
}

function setScene(cluster: TestCluster, name: string): Scene {
  const domain = `${name}.example.com/`;
  const nodeName = (node: string): string => `${name}-${node}`;
  const labels: Scene["labels"] = async (node) => {
    const { metadata } = await cluster.client.get(nodes, { name: nodeName(node) });
    const own = Object.entries(metadata?.labels ?? {}).filter(([key]) => key.startsWith(domain));
    return Object.fromEntries(own.map(([key, value]) => [key.slice(domain.length), value]));
  };
  return {
    key: (of) => `${domain}${of}`,
    nodeName,
    async run(folder, more) {
      await using owned = new AsyncDisposableStack();
      const client = owned.use(cluster.connect({ userAgent: `${agentOf(name)}1` }));
      const running = owned.use(await runLabels({ client, folder, installation: name, ...more }));
      const all = owned.move();
      return {
        events: running.events,
        get problems() {
          return running.problems;
        },
        [Symbol.asyncDispose]: () => all.disposeAsync(),
      };
    },
    async create(node, given = {}) {
      await cluster.client.create(nodes, aNode(nodeName(node)).labelled(given).build());
    },
    async label(node, edit) {
      const body = { metadata: { labels: edit } };
      await cluster.client.patch(nodes, { name: nodeName(node) }, { type: "merge", body });
    },
    labels,
    expectLabels: (node, expected) => eventually(async () => expect(await labels(node)).toEqual(expected)),
    mark: () => cluster.audit.mark(),
    patches(since, node) {
      const of = { verb: "patch", resource: "nodes", userAgent: agentOf(name) };
      return cluster.audit.countSince(since, node === undefined ? of : { ...of, name: nodeName(node) });
    },
  };
}

/** Label rules at work on a real cluster, put together as the composition root does it. */
interface RunningLabels extends AsyncDisposable {
  /** Events that would be written, in order. */
  readonly events: readonly EventInput[];
  /** Faults of the folder as last read. */
  readonly problems: readonly RuleProblem[];
}

interface RunLabelsOptions {
  readonly client: KubeClient;
  readonly folder: string;
  readonly installation: string;
  /** How long a file has to stay empty before that is believed. Milliseconds, default as for `watchFolder`. */
  readonly settleMs?: number;
  /** Runs before each patch is sent: the moment for another writer to be faster. */
  readonly beforePatch?: (name: string) => Promise<void>;
}

/** Resolves once the folder has been read and the informer is synced. */
async function runLabels(options: RunLabelsOptions): Promise<RunningLabels> {
  const { client, folder, installation, beforePatch, settleMs } = options;
  const common = { clock: systemClock, log: createSilentLogger() };
  const cluster = clusterName("test");
  const events: EventInput[] = [];
  let rules: LabelRules | undefined;
  let problems: readonly RuleProblem[] = [];
  const read = Promise.withResolvers<void>();
  const informer = createInformer<Node>({ client, cluster, resource: nodes, ...common });
  const api: NodeApi = {
    async patch(name, body, signal) {
      await beforePatch?.(name);
      return client.patch(nodes, { name }, { type: "merge", body }, { signal });
    },
    read: (name, signal) => client.get(nodes, { name }, { signal }),
  };
  const writer = new NodeWriter({
    nodes: informer,
    api,
    capabilities: [bindLabels(() => rules)],
    installation,
    clock: systemClock,
    events: { record: (event) => void events.push(event) },
  });
  const controller = createController({
    name: "nodes",
    reconcile: writer.reconcile,
    sources: [watchFor<Node>({ informer, predicate: nodeMarksChanged, map: toSelf(cluster) })],
    ...common,
  });
  const stop = new AbortController();
  const watching = watchFolder({
    path: folder,
    ...(settleMs !== undefined && { settleMs }),
    signal: stop.signal,
    onChange: (snapshot) => {
      ({ rules, problems } = parseLabelFolder(snapshot));
      read.resolve();
      for (const node of informer.list()) controller.enqueue(keyOf(cluster, node));
    },
    onProblem: () => undefined,
  });
  await read.promise;
  const running = [await informer.start(stop.signal), await controller.start(stop.signal)];
  return {
    events,
    get problems() {
      return problems;
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await Promise.all([watching, ...running.map(({ ended }) => ended)]);
    },
  };
}

/** A folder of rules on disk that goes away with its owner. */
interface RuleFolder extends AsyncDisposable {
  readonly path: string;
  write(file: string, text: string): Promise<void>;
  remove(path: string): Promise<void>;
}

async function makeRuleFolder(files: Readonly<Record<string, string>> = {}): Promise<RuleFolder> {
  const path = await mkdtemp(join(tmpdir(), "berth-labels-"));
  const folder: RuleFolder = {
    path,
    async write(file, text) {
      await mkdir(dirname(join(path, file)), { recursive: true });
      await writeFile(join(path, file), text);
    },
    remove: (file) => rm(join(path, file), { recursive: true }),
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  };
  for (const [file, text] of Object.entries(files)) await folder.write(file, text);
  return folder;
}
