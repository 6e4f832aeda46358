/** Architecture policies as commands see and undo them, on a real API server and a real registry. */
import { type Node, namespaces, nodes, type Pod, pods, replicaSets } from "@berth/kube";
import {
  ARCHITECTURE_CONDITION,
  ARCHITECTURE_GATE,
  type ArchitectureForecast,
  MARKS_ANNOTATION,
  type PodExplanation,
} from "@berth/placement";
import {
  aNode,
  anImage,
  aPod,
  eventually,
  type PodBuilder,
  sharedTestCluster,
  startRegistry,
  type TestCluster,
  type TestRegistry,
} from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startBerth } from "../composition.ts";
import { exitCodes } from "../exit-codes.ts";
import { type CliResult, cli, type TestFolder, testFolder } from "../testing/harness.ts";
import { listing, registriesDocument } from "../testing/registries.ts";

const TAINT = "supported-arch";
const policy = (mode: string): string => `apiVersion: berth.dev/v1alpha1
kind: ArchitecturePolicy
metadata: {name: all}
spec: {mode: ${mode}, maxHold: 1h}
---
${registriesDocument(registry)}
`;

let cluster: TestCluster;
let registry: TestRegistry;
const images = { both: "", amd: "", arm: "" };

beforeAll(async () => {
  [cluster, registry] = await Promise.all([sharedTestCluster(), startRegistry()]);
  const push = async (name: string, ...platforms: readonly string[]): Promise<string> =>
    (await registry.push(anImage(name).platforms(...platforms))).reference;
  images.both = await push("team/both:1", "linux/amd64", "linux/arm64");
  images.amd = await push("team/amd:1", "linux/amd64");
  images.arm = await push("team/arm:1", "linux/arm64");
});
afterAll(async () => {
  await registry?.[Symbol.asyncDispose]();
});

interface Stage extends AsyncDisposable {
  readonly folder: TestFolder;
  readonly command: (...args: readonly string[]) => Promise<CliResult>;
  /** `clean --capability architecture --yes`. */
  readonly clean: (...args: readonly string[]) => Promise<CliResult>;
  readonly create: (pod: PodBuilder) => Promise<Pod>;
}

let stages = 0;

/** A node of each architecture, a namespace, and policies in files. */
async function stage(): Promise<Stage> {
  await using owned = new AsyncDisposableStack();
  const folder = owned.use(
    await testFolder({
      kubeconfig: cluster.kubeconfig(),
      "taint.yaml": policy("Taint"),
      "both.yaml": policy("Both"),
      "confirm.yaml": policy("Taint, bootstrap: Confirm"),
    }),
  );
  const { client } = cluster;
  const namespace = `architecture-${++stages}`;
  await client.create(namespaces, { metadata: { name: namespace } });
  owned.defer(async () => {
    await client.deleteCollection(nodes, {});
    await client.deleteCollection(pods, { namespace });
  });
  await client.create(nodes, aNode("amd").build());
  await client.create(nodes, aNode("arm").arm64().build());
  const made = owned.move();
  const command: Stage["command"] = (...args) =>
    cli([...args, "--kubeconfig", "kubeconfig"], { folder: folder.path });
  return {
    folder,
    command,
    clean: (...args) => command("clean", "--capability", "architecture", "--yes", ...args),
    create: (pod) => client.create(pods, pod.in(namespace).build(), { namespace }),
    [Symbol.asyncDispose]: () => made.disposeAsync(),
  };
}

const nameOf = ({ metadata }: Pod): string => `${metadata?.namespace}/${metadata?.name}`;
const ofPod = ({ metadata }: Pod): { namespace: string; name: string } => ({
  namespace: metadata?.namespace ?? "",
  name: metadata?.name ?? "",
});

async function taintsOf(name: string): Promise<readonly string[]> {
  const node: Node = await cluster.client.get(nodes, { name });
  return (node.spec?.taints ?? [])
    .filter(({ key }) => !key.startsWith("node.kubernetes.io/"))
    .map(({ key, value, effect }) => `${key}=${value}:${effect}`);
}

/** Runs Berth with the policy until both nodes are tainted. */
async function tainted({ folder }: Stage): Promise<void> {
  await using client = cluster.connect();
  await using _berth = await startBerth({
    client,
    config: [{ path: `${folder.path}/taint.yaml`, shown: "taint.yaml" }],
    registries: await listing(registry),
  });
  await eventually(async () => expect(await taintsOf("arm")).toContain(`${TAINT}=arm64:NoSchedule`));
  await eventually(async () => expect(await taintsOf("amd")).toContain(`${TAINT}=amd64:NoSchedule`));
}

describe("berth plan", () => {
  it("A-B7 tells which nodes would be tainted, which pods would change, and who can run nowhere; it writes nothing", async () => {
    await using on = await stage();
    const fits = await on.create(aPod("fits").image(images.amd));
    const never = await on.create(aPod("never").image(images.amd).container("sidecar", images.arm));
    const { code, stdout } = await on.command("plan", "--config", "taint.yaml", "-o", "json");
    const { architecture, ...diff } = JSON.parse(stdout) as {
      readonly architecture: ArchitectureForecast;
      readonly nodes: readonly { readonly node: string; readonly changes: readonly object[] }[];
    };
    expect(code).toBe(exitCodes.done);
    expect(architecture).toMatchObject({
      policies: [{ policy: "config/all", mode: "Taint", bootstrap: { phase: "Tainting" } }],
      pods: [`Pod ${nameOf(fits)}`],
      uncovered: [],
      stuck: [{ workload: `Pod ${nameOf(never)}`, reason: "NoCommonArchitecture" }],
    });
    expect(diff.nodes.map(({ node, changes }) => [node, changes])).toEqual([
      ["amd", [expect.objectContaining({ after: "amd64", reason: "ArchitectureTainted" })]],
      ["arm", [expect.objectContaining({ after: "arm64", reason: "ArchitectureTainted" })]],
    ]);
    const text = (await on.command("plan", "--config", "taint.yaml")).stdout;
    expect(text).toContain("config/all (Taint): Tainting: ");
    expect(text).toContain(`1 pod would be changed: Pod ${nameOf(fits)}`);
    expect(text).toMatch(/Pod .*\/never +NoCommonArchitecture: container main .*container sidecar/);
    expect(await taintsOf("arm")).toEqual([]);
  });

  it("counts a pod that would get tolerations as a change, though no node would be written", async () => {
    await using on = await stage();
    const plan = () => on.command("plan", "--config", "confirm.yaml", "--exit-code");
    const before = await plan();
    expect(before.code).toBe(exitCodes.done);
    expect(before.stdout).toContain("No changes of nodes: 2 looked at.");
    const pod = await on.create(aPod("fits").image(images.amd));
    const after = await plan();
    expect(after.code).toBe(exitCodes.changes);
    expect(after.stdout).toContain(`1 pod would be changed: Pod ${nameOf(pod)}`);
  });

  it("A-B7 waits with the nodes for a pod whose images do not answer, and says so", async () => {
    await using on = await stage();
    await registry.stop();
    const pod = await on.create(aPod("unknown").image(`${registry.host}/team/unknown:1`));
    const { stdout } = await on.command("plan", "--config", "taint.yaml", "-o", "json");
    await registry.start();
    const policies = [{ bootstrap: { phase: "Bootstrapping" } }];
    const uncovered = [{ workload: `Pod ${nameOf(pod)}`, reason: "ImagesPending" }];
    expect(JSON.parse(stdout)).toMatchObject({ written: 0, architecture: { policies, uncovered } });
  });
});

describe("berth explain", () => {
  it("pod tells which image excludes which architecture, and which nodes are left", async () => {
    await using on = await stage();
    const pod = await on.create(aPod("web").image(images.both).container("sidecar", images.arm));
    const { stdout } = await on.command("explain", "pod", nameOf(pod), "--config", "both.yaml", "-o", "json");
    const said = JSON.parse(stdout) as PodExplanation;
    expect(said).toMatchObject({
      pod: nameOf(pod),
      policy: "config/all",
      verdict: "fits",
      architectures: ["arm64"],
      images: [
        { where: "container main", architectures: ["amd64", "arm64"], excludes: [] },
        { where: "container sidecar", architectures: ["arm64"], excludes: ["amd64"] },
      ],
      missingTolerations: [{ key: TAINT, value: "arm64", effect: "NoSchedule" }],
      next: "change",
    });
    expect(said.nodes.map(({ platform, because }) => [platform, because[0]?.why])).toEqual([
      ["linux/amd64", "its images do not run on amd64"],
      ["linux/arm64", expect.stringContaining("node.kubernetes.io/not-ready")],
    ]);
    const text = (await on.command("explain", "pod", nameOf(pod), "--config", "both.yaml")).stdout;
    expect(text).toMatch(/container sidecar +\S+ +runs on arm64; excludes amd64/);
    expect(text).toMatch(/linux\/amd64 +0 of 1 node left: its images do not run on amd64/);
  });

  it("pod and plan ask no registry where the policy, or the pod, has its own word", async () => {
    await using on = await stage();
    await on.folder.write(
      "told.yaml",
      policy(`Taint, images: [{image: "${registry.host}/*", architectures: [arm64]}]`),
    );
    const pod = await on.create(aPod("told").image(images.arm));
    const given = { "berth.dev/architectures": "amd64" };
    const other = await on.create(aPod("given").image(images.amd).annotated(given));
    const mark = registry.requests.mark();
    const explain = async (it: Pod): Promise<string> =>
      (await on.command("explain", "pod", nameOf(it), "--config", "told.yaml")).stdout;
    expect(await explain(pod)).toContain("runs on arm64, by the policy; excludes amd64");
    expect(await explain(other)).toContain("fits: ArchitecturesGiven");
    const planned = await on.command("plan", "--config", "told.yaml");
    expect(planned.stdout).toContain("2 pods would be changed");
    expect(registry.requests.countSince(mark)).toBe(0);
  });

  it("pod names what is not there, and what is no name", async () => {
    await using on = await stage();
    const missing = await on.command("explain", "pod", "default/none");
    expect(missing.code).toBe(exitCodes.failed);
    expect(missing.stderr).toContain("there is no pod default/none");
    expect((await on.command("explain", "pod", "a/b/c")).code).toBe(exitCodes.usage);
  });

  it("node tells the taint, and whether it stands", async () => {
    await using on = await stage();
    const before = await on.command("explain", "node", "arm", "--config", "taint.yaml");
    expect(before.stdout).toMatch(
      /architecture config\/all\n +taint +supported-arch=arm64:NoSchedule: not set/,
    );
    await tainted(on);
    const { stdout } = await on.command("explain", "node", "arm", "--config", "taint.yaml");
    expect(stdout).toMatch(/supported-arch=arm64:NoSchedule: set, by berth/);
    expect(stdout).toMatch(/taint\/supported-arch:NoSchedule=arm64/);
  });
});

describe("berth clean --capability architecture", () => {
  it("A-P12 takes all taints of the original key off, whatever value and effect, and no others; pods stay", async () => {
    await using on = await stage();
    const waiting = await on.create(aPod("waiting").image(images.amd));
    await tainted(on);
    const { client } = cluster;
    const { spec } = await client.get(nodes, { name: "amd" });
    const foreign = [
      { key: TAINT, value: "other", effect: "PreferNoSchedule" },
      { key: "example.com/kept", value: "", effect: "NoSchedule" },
    ];
    const body = { spec: { taints: [...(spec?.taints ?? []), ...foreign] } };
    await client.patch(nodes, { name: "amd" }, { type: "merge", body });
    const dry = await on.command("clean", "--capability", "architecture");
    expect(dry.stdout).toContain(`- taint/${TAINT}:PreferNoSchedule=other`);
    expect(await taintsOf("arm")).toHaveLength(1);
    expect((await on.clean()).code).toBe(exitCodes.done);
    expect(await taintsOf("arm")).toEqual([]);
    expect(await taintsOf("amd")).toEqual([expect.stringMatching(/^example.com\/kept=/)]);
    const { metadata } = await client.get(nodes, { name: "arm" });
    expect(metadata?.annotations?.[MARKS_ANNOTATION] ?? "").not.toContain(TAINT);
    const { spec: pod } = await client.get(pods, ofPod(waiting));
    expect(pod?.tolerations).toContainEqual({ key: TAINT, value: "amd64", effect: "NoSchedule" });
  });

  it("lets the pods go that a policy holds", async () => {
    await using on = await stage();
    const theirs = { name: "example.com/theirs" };
    const schedulingGates = [theirs, { name: ARCHITECTURE_GATE }];
    const gated = aPod("held").with((pod) => ({
      ...pod,
      spec: { containers: [], ...pod.spec, schedulingGates },
    }));
    const held = await on.create(gated);
    const { code, stdout } = await on.clean();
    expect(code).toBe(exitCodes.done);
    expect(stdout).toBe(`1 pod will be released from an architecture policy: ${nameOf(held)}\n`);
    expect((await cluster.client.get(pods, ofPod(held))).spec?.schedulingGates).toEqual([theirs]);
  });

  it("I-11 takes the condition off a pod that can run nowhere", async () => {
    await using on = await stage();
    const stuck = await on.create(aPod("stuck"));
    const others = stuck.status?.conditions;
    const body = { status: { conditions: [{ type: ARCHITECTURE_CONDITION, status: "False" }] } };
    const { client } = cluster;
    await client.patch(pods, ofPod(stuck), { type: "strategic", body }, { subresource: "status" });
    expect((await on.clean()).code).toBe(exitCodes.done);
    expect((await client.get(pods, ofPod(stuck))).status?.conditions).toEqual(others);
  });

  it("A-B10 restarts pods only when asked to, those alone that a controller makes anew, and by eviction", async () => {
    await using on = await stage();
    const { client } = cluster;
    const toleration = { key: TAINT, value: "amd64", effect: "NoSchedule" };
    const bare = await on.create(aPod("bare").tolerating(toleration));
    const { namespace } = ofPod(bare);
    const labels = { app: "web" };
    const template = { metadata: { labels }, spec: { containers: [{ name: "main", image: images.amd }] } };
    const spec = { replicas: 0, selector: { matchLabels: labels }, template };
    const web = await client.create(replicaSets, { metadata: { name: "web" }, spec }, { namespace });
    const ofWeb = (name: string): PodBuilder => aPod(name).ownedBy("ReplicaSet", "web", web.metadata?.uid);
    const owned = await on.create(ofWeb("owned").tolerating(toleration));
    const other = await on.create(ofWeb("other"));
    await on.clean();
    await client.get(pods, ofPod(owned));
    const { code, stdout } = await on.clean("--restart-pods");
    expect(code).toBe(exitCodes.done);
    expect(stdout).toBe(
      `1 pod will be evicted, so that new ones come without the tolerations: ${nameOf(owned)}\n` +
        `pod ${nameOf(bare)} stays: no controller would create it again\n`,
    );
    await expect(client.get(pods, ofPod(owned))).rejects.toMatchObject({ failure: { kind: "notFound" } });
    await client.get(pods, ofPod(bare));
    await client.get(pods, ofPod(other));
  });

  it("refuses what does not go together", async () => {
    await using on = await stage();
    const { code, stderr } = await on.command("clean", "--capability", "labels", "--restart-pods");
    expect(code).toBe(exitCodes.usage);
    expect(stderr).toContain("--restart-pods is for --capability architecture");
  });
});
