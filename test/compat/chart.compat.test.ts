/** The chart where it takes longer: each mode is started, a version before is upgraded, and uninstalling goes wrong. */
import { execFile } from "node:child_process";
import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import {
  clusterRoles,
  configMaps,
  customResourceDefinitions,
  deployments,
  type KubeObject,
  mutatingAdmissionPolicyBindings,
  type Node,
  namespaces,
  nodes,
  pods,
} from "@berth/kube";
import { architecturePolicies, labelRules, startupGates } from "@berth/placement";
import { aNode, aPod, findFreePort } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { startService } from "../../packages/cli/src/testing/replica-service.ts";
import { root } from "../../scripts/run-tool.ts";
import { CHART, type ChartFixture, createChartFixture, IN_NAMESPACE, NAMESPACE } from "../chart-fixture.ts";
import { argumentsOfPod } from "../deployment-pod.ts";
import { patiently } from "../patience.ts";
import { type BerthProcess, startBerthProcess } from "../product.ts";

const run = promisify(execFile);
const TAINT = "example.com/starting";
/** Of `berth clean` under any fault. Milliseconds. */
const BOUND_MS = 30_000;

/** Values with which the API server reaches a Berth on this machine. */
async function writeValues(fixture: ChartFixture, servicePort: number, values: object = {}): Promise<string> {
  const url = `https://127.0.0.1:${servicePort}`;
  const spec = { bindAddress: "127.0.0.1:8443", url };
  const metadata = { name: "default" };
  const server = { apiVersion: "berth.dev/v1alpha1", kind: "AdmissionServer", metadata, spec };
  const file = join(fixture.folder, "values.yaml");
  await writeFile(file, stringify({ documents: [server], ...values }));
  return file;
}

interface Replica {
  readonly berth: BerthProcess;
  /** Where it answers reviews. */
  readonly port: number;
}

/** As the kubelet starts a pod of the Deployment as it is now. @param command another version. */
async function startReplica(
  fixture: ChartFixture,
  pod: string,
  command?: readonly [string, ...string[]],
): Promise<Replica> {
  const { client, folder } = fixture;
  const deployed = await client.get(deployments, { namespace: NAMESPACE, name: "berth" });
  const place = join(folder, pod);
  const args = await argumentsOfPod(deployed, client, place);
  const port = await findFreePort();
  const documents = join(place, "etc/berth/config/documents.yaml");
  await writeFile(
    documents,
    (await readFile(documents, "utf8")).replace("127.0.0.1:8443", `127.0.0.1:${port}`),
  );
  const free = "127.0.0.1:0";
  const berth = startBerthProcess({
    args: [...args, "--metrics-bind-address", free, "--health-probe-bind-address", free],
    environment: await fixture.podOf("berth", pod),
    ...(command && { command }),
  });
  try {
    await patiently(() => berth.ready());
  } catch (error) {
    throw new Error(`${pod} is not ready:\n${berth.output}`, { cause: error });
  }
  return { berth, port };
}

const isHeld = ({ spec }: Node): boolean => spec?.taints?.some(({ key }) => key === TAINT) === true;

const create = (fixture: ChartFixture, resource: typeof nodes | object, name: string, spec: object) =>
  fixture.client.create(resource as typeof nodes, { metadata: { name }, spec } as KubeObject);

/** n1 is labelled, and n2 is held by a gate. */
async function useBerth(fixture: ChartFixture): Promise<void> {
  const { client } = fixture;
  const label = { key: "example.com/berth", value: "hello" };
  await create(fixture, labelRules, "hello", { match: {}, labels: [label] });
  const signals = { conditions: [{ type: "example.com/Ready" }] };
  await create(fixture, startupGates, "starting", { taint: { key: TAINT }, signals });
  await patiently(async () => {
    const made = await client.create(nodes, aNode("probe").fake().build(), { dryRun: true });
    expect(isHeld(made)).toBe(true);
  });
  await client.create(nodes, aNode("n2").fake().build());
  await patiently(async () => {
    for (const name of ["n1", "n2"])
      expect((await client.get(nodes, { name })).metadata?.labels).toMatchObject({
        "example.com/berth": "hello",
      });
  });
}

/** No label, taint, record or admission object of Berth is left. */
async function expectClean({ client }: ChartFixture): Promise<void> {
  for (const name of ["n1", "n2"]) {
    const node = await client.get(nodes, { name });
    expect(Object.keys(node.metadata?.labels ?? {})).not.toContain("example.com/berth");
    expect(Object.keys(node.metadata?.annotations ?? {})).not.toContain("berth.dev/marks");
    expect(isHeld(node)).toBe(false);
  }
  expect((await client.list(mutatingAdmissionPolicyBindings)).items).toEqual([]);
}

const deleteCrds = async ({ client }: ChartFixture): Promise<void> => {
  for (const { metadata } of (await client.list(customResourceDefinitions)).items)
    await client.delete(customResourceDefinitions, { name: metadata?.name ?? "" });
};

async function install(fixture: ChartFixture, values?: object): Promise<void> {
  const file = await writeValues(fixture, await findFreePort(), values);
  const words = ["install", "berth", CHART, ...IN_NAMESPACE, "--create-namespace", "--values", file];
  await fixture.call("helm", ...words);
}

describe("a mode of the chart", () => {
  it.each<[string, object]>([
    ["node side", {}],
    ["single", { fleet: { mode: "single", cities: ["DFW"] } }],
    ["cell", { fleet: { mode: "cell", cell: "dfw-1", provider: "external" } }],
  ])("%s starts with what helm has installed, is ready, and is refused nothing", async (_mode, values) => {
    await using fixture = await createChartFixture();
    const mark = await fixture.cluster.audit.mark();
    await install(fixture, values);
    const { berth } = await startReplica(fixture, "berth-0");
    await using _running = berth;
    await useBerth(fixture);
    const refused = await fixture.cluster.audit.entriesSince(mark, { code: 403 });
    expect(refused.filter(({ user }) => user.startsWith(`system:serviceaccount:${NAMESPACE}:`))).toEqual([]);
    expect(berth.output).not.toMatch(/forbidden|\b403\b/);
  });
});

describe("an uninstall", () => {
  async function installed(): Promise<ChartFixture> {
    const fixture = await createChartFixture();
    await install(fixture);
    const { berth } = await startReplica(fixture, "berth-0");
    await using _running = berth;
    await useBerth(fixture);
    return fixture;
  }

  it("takes everything back when the CRDs were deleted first", async () => {
    await using fixture = await installed();
    await deleteCrds(fixture);
    const startedAt = performance.now();
    const { stdout } = await fixture.runHook();
    expect(performance.now() - startedAt).toBeLessThan(BOUND_MS);
    expect(stdout).toContain(`taint/${TAINT}`);
    await expectClean(fixture);
    await fixture.call("helm", "uninstall", "berth", ...IN_NAMESPACE);
  });

  it("takes everything back when the namespace was deleted first, by berth clean and an install of the same name", async () => {
    await using fixture = await installed();
    const { client } = fixture;
    await client.delete(namespaces, { name: NAMESPACE });
    await patiently(() => expect(client.get(namespaces, { name: NAMESPACE })).rejects.toThrow("not found"));
    await expect(fixture.call("helm", "uninstall", "berth", ...IN_NAMESPACE)).rejects.toThrow("not found");
    const clean = ["clean", "--yes", "--kubeconfig", join(fixture.folder, "admin")];
    await run(join(root, "bin/berth"), clean, { env: { ...process.env, HOME: fixture.folder } });
    await expectClean(fixture);
    await fixture.call("helm", "install", "berth", CHART, ...IN_NAMESPACE, "--create-namespace");
    await fixture.call("helm", "uninstall", "berth", ...IN_NAMESPACE, "--no-hooks");
    const { items } = await client.list(clusterRoles);
    expect(items.map(({ metadata }) => metadata?.name).filter((name) => name?.startsWith("berth"))).toEqual(
      [],
    );
  });

  it("fails and says why when it may not write nodes, and loses nothing for the next time", async () => {
    await using fixture = await installed();
    const { client } = fixture;
    const startedAt = performance.now();
    const refused = fixture.runHook((role) =>
      role.rules?.map((it) =>
        it.resources?.includes("nodes") ? { ...it, verbs: it.verbs.filter((verb) => verb !== "patch") } : it,
      ),
    );
    await expect(refused).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining("cannot patch") });
    expect(performance.now() - startedAt).toBeLessThan(BOUND_MS);
    // It says which records of taints are valid.
    await client.get(configMaps, { namespace: NAMESPACE, name: "berth-declared-places" });
    await fixture.runHook();
    await expectClean(fixture);
  });
});

/** The last release; without one, the first commit whose chart has its hook. @returns the command that runs it. */
async function versionBefore(
  folder: string,
): Promise<{ readonly chart: string; readonly command: [string, string, string] }> {
  const git = async (...args: readonly string[]): Promise<readonly string[]> =>
    (await run("git", args, { cwd: root })).stdout.trim().split("\n");
  const tags = await git("tag", "--list", "v*", "--sort=-version:refname");
  const first = (
    await git("log", "--format=%H", "--diff-filter=A", "--", "charts/berth/templates/cleanup.yaml")
  ).at(-1);
  await run("git", ["worktree", "add", "--detach", folder, tags[0] || (first ?? "")], { cwd: root });
  await run("make", ["node_modules/.package-lock.json"], { cwd: folder });
  const main = join(folder, "packages/cli/src/main.ts");
  return {
    chart: join(folder, "charts/berth"),
    command: [process.execPath, "--conditions=berth-source", main],
  };
}

describe("an upgrade", () => {
  it("from the version before and back, with a gate held: no node without its taint, and no write to a node", async () => {
    await using owned = new AsyncDisposableStack();
    const { path } = owned.use(await mkdtempDisposable(join(tmpdir(), "berth-before-")));
    owned.defer(async () => void (await run("git", ["worktree", "remove", "--force", path], { cwd: root })));
    const old = await versionBefore(path);
    const fixture = owned.use(await createChartFixture());
    const { client, cluster } = fixture;
    const service = owned.use(await startService());
    const file = await writeValues(fixture, service.port);
    const change = (verb: "install" | "upgrade", chart: string, revision: number) => {
      const other = ["--values", file, "--set-string", `podAnnotations.at=${revision}`];
      return fixture.call("helm", verb, "berth", chart, ...IN_NAMESPACE, "--create-namespace", ...other);
    };
    await change("install", old.chart, 1);
    let running = [
      await startReplica(fixture, "old-0", old.command),
      await startReplica(fixture, "old-1", old.command),
    ];
    owned.defer(async () => {
      for (const { berth } of running) await berth.kill();
    });
    service.lead(running[0]?.port ?? 0);
    await useBerth(fixture);
    await create(fixture, architecturePolicies, "all", { mode: "Affinity", maxHold: "1h" });
    /** The API server does not store it, and asks admission all the same. */
    const probe = async (): Promise<readonly [boolean, boolean]> => {
      const node = await client.create(nodes, aNode("probe").fake().build(), { dryRun: true });
      const pod = await client.create(pods, aPod("probe").image("127.0.0.1:1/none:1").build(), {
        dryRun: true,
      });
      return [isHeld(node), pod.spec?.schedulingGates?.length === 1];
    };
    await patiently(async () => expect(await probe()).toEqual([true, true]));

    const mark = await cluster.audit.mark();
    const probes: (readonly [boolean, boolean])[] = [];
    const over = new AbortController();
    const probing = (async () => {
      while (!over.signal.aborted) probes.push(await probe());
    })();
    /** One after the other: the Service leads to a replica that is ready, then the old one ends. */
    const replace = async (name: string, command?: readonly [string, ...string[]]): Promise<void> => {
      for (const at of [0, 1]) {
        const next = await startReplica(fixture, `${name}-${at}`, command);
        service.lead(next.port);
        const [gone, ...rest] = running;
        running = [...rest, next];
        await gone?.berth[Symbol.asyncDispose]();
      }
    };
    await change("upgrade", CHART, 2);
    await replace("new");
    await fixture.call("helm", "rollback", "berth", "1", ...IN_NAMESPACE);
    await replace("back", old.command);
    over.abort();
    await probing;

    expect(probes.length).toBeGreaterThan(10);
    expect(probes.filter(([node]) => !node)).toEqual([]);
    // Each of the two older replicas may cost a pod: its server ends with reviews on the way.
    expect(probes.filter(([, pod]) => !pod).length).toBeLessThanOrEqual(2);
    const writes = await cluster.audit.entriesSince(mark, { verb: "patch", resource: "nodes" });
    expect(writes.filter(({ user }) => user.endsWith(`:${NAMESPACE}:berth`))).toEqual([]);
    expect(isHeld(await client.get(nodes, { name: "n2" }))).toBe(true);
  });
});
