/**
 * Planes that are put back to a backup, or made anew: a hub, a project and a cell, each a control plane of its own. The cell
 * is played; Berth runs for the hub.
 */
import { deepStrictEqual, ok } from "node:assert";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  cells,
  type Instance,
  instances,
  type WorkloadDeployment,
  withdrawals,
  workloadDeployments,
  workloads,
} from "@berth/fleet";
import { events, type KubeClient, namespaces } from "@berth/kube";
import type { AuditMark } from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type PlayedCells, playCells } from "../packages/fleet/src/testing/cell-actor.ts";
import { runCommand } from "./command.ts";
import { changeWorkload, conditionOf, createWorkload, imageChange } from "./fleet-fixture.ts";
import { addCells, barePlanes, type HubFixture } from "./hub-fixture.ts";
import { patiently } from "./patience.ts";
import { backUp, rebuild } from "./plane-backup.ts";

const CELL = "dfw-01";
const NAMESPACE = "default";
const [OLD, NEW] = ["registry.test/web:1", "registry.test/web:2"];

const fleet = (web: string): string => `apiVersion: berth.dev/v1alpha1
kind: Fleet
metadata: { name: fleet }
spec:
  mode: management
  hub: self
  projects: { kubeconfigs: [{ path: acme/web, kubeconfig: ${web} }] }
`;

const owned = new AsyncDisposableStack();
let fixture: HubFixture;
let web: KubeClient;
let cell: KubeClient;
let played: PlayedCells;
const restore = new Map<string, () => Promise<void>>();

beforeAll(async () => {
  fixture = owned.use(await barePlanes(["hub"], ["web", CELL]));
  web = fixture.plane("web").client;
  cell = fixture.plane(CELL).client;
  played = await playCells(cell, [CELL]);
  owned.defer(() => played[Symbol.asyncDispose]());
  await fixture.startHub(fleet(await fixture.allowHub("web", "project")));
  await addCells(fixture, [CELL]);
  for (const name of ["kept", "changed", "removed"]) await create(name);
  for (const name of ["kept", "changed", "removed"]) await runs(name, OLD);
  const folder = owned.use(await mkdtempDisposable(path.join(tmpdir(), "berth-backups-"))).path;
  for (const name of ["hub", "web", CELL]) restore.set(name, await backUp(fixture.plane(name), folder));
});
afterAll(() => owned.disposeAsync());

const create = (name: string) => createWorkload(web, { namespace: NAMESPACE, name, image: OLD, replicas: 2 });

/** The project says so, and it is news. */
function runs(name: string, image: string): Promise<void> {
  return patiently(async () => {
    const { status, metadata } = await web.get(workloads, { namespace: NAMESPACE, name });
    const [deployment, onHub] = [await inCell(name), await fixture.onHub(`${name}-us-dfw`)];
    deepStrictEqual(
      [
        status?.readyReplicas,
        status?.unheard,
        status?.observedGeneration,
        imageOf(deployment),
        imageOf(onHub),
      ],
      [2, undefined, metadata?.generation, image, image],
    );
  });
}

const imageOf = (of: WorkloadDeployment | undefined) =>
  of?.spec?.template.spec.runtime.sandbox?.containers[0]?.image;

async function inCell(name: string): Promise<WorkloadDeployment | undefined> {
  const { items } = await cell.list(workloadDeployments);
  return items.find(({ metadata }) => metadata?.name === `${name}-us-dfw`);
}

/** `kept-us-dfw-0 UID` of all Instances in the cell. */
async function uids(of: string = ""): Promise<readonly string[]> {
  const { items } = await cell.list<Instance>(instances);
  return items
    .map(({ metadata }) => `${metadata?.name} ${metadata?.uid}`)
    .filter((it) => it.startsWith(of))
    .sort();
}

/** `create workloaddeployments/ ns-U/w-us-dfw`: what the hub has written in the cell. */
async function written(mark: AuditMark): Promise<readonly string[]> {
  const entries = await fixture.plane(CELL).audit.entriesSince(mark, { userAgent: "berth" });
  return entries
    .filter(({ verb, user }) => user !== "admin" && ["create", "patch", "update", "delete"].includes(verb))
    .map((it) => `${it.verb} ${it.resource}/${it.subresource} ${it.namespace}/${it.name}`);
}

/** `get workloaddeployments default/w-us-dfw`: what the API server did not let Berth do. */
async function refusedIn(plane: string, mark: AuditMark): Promise<readonly string[]> {
  const entries = await fixture.plane(plane).audit.entriesSince(mark, { userAgent: "berth" });
  return entries
    .filter(({ code }) => [401, 403].includes(code))
    .map((it) => `${it.verb} ${it.resource} ${it.namespace}/${it.name}`);
}

const berth = async (...args: readonly string[]): Promise<string> =>
  runCommand(...args, "--kubeconfig", await fixture.hubAdmin());

const orphans = async (): Promise<readonly string[]> => {
  const { status } = await fixture.hub.get(cells, { name: CELL });
  return (status?.orphans?.names ?? []).map(({ of = "" }) => of);
};

it("a hub that is put back an hour writes nothing in cells, and shows what is", async () => {
  await changeWorkload(web, NAMESPACE, imageChange(NEW), "changed");
  await web.delete(workloads, { namespace: NAMESPACE, name: "removed" });
  await create("made");
  await runs("changed", NEW);
  await runs("made", OLD);
  await patiently(async () => deepStrictEqual(await inCell("removed"), undefined));
  const [before, mark] = [await uids(), await fixture.plane(CELL).audit.mark()];
  await restore.get("hub")?.();
  const startedMs = performance.now();
  await runs("kept", OLD);
  await runs("changed", NEW);
  await runs("made", OLD);
  await patiently(async () => deepStrictEqual(await fixture.onHub("removed-us-dfw"), undefined));
  expect(performance.now() - startedMs).toBeLessThan(30_000);
  const shown = (await berth("fleet"))
    .split("\n")
    .map((line) => line.trim().split(/ +/).slice(0, 8).join(" "));
  for (const name of ["changed", "kept", "made"])
    expect(shown).toContain(`DFW web ${NAMESPACE} ${name} ${CELL} 2 2 2`);
  expect(await written(mark)).toEqual([]);
  expect([await uids(), await orphans()]).toEqual([before, []]);
});

describe("where the project is put back as well", () => {
  it("what it has made since is an orphan, and goes on as that of the same name", async () => {
    const [before, mark] = [await uids("made"), await fixture.plane(CELL).audit.mark()];
    await restore.get("web")?.();
    const restored = await fixture.plane("web").audit.mark();
    await restore.get("hub")?.();
    await patiently(async () => deepStrictEqual(await orphans(), ["acme/web/default/made-us-dfw"]));
    // What the backup says holds again.
    await runs("changed", OLD);
    await runs("removed", OLD);
    const listed = await berth("cell", "list", "--orphans");
    const [, orphan = ""] =
      /^dfw-01 +(ns-\S+\/made-us-dfw) +runs +acme\/web\/default\/made-us-dfw$/m.exec(listed) ?? [];
    expect(listed).toMatch(/^dfw-01 +ns-\S+\/made-us-dfw +runs /m);
    expect((await written(mark)).filter((it) => it.endsWith("/made-us-dfw"))).toEqual([]);
    await Promise.all([berth("cell", "adopt", CELL, orphan), create("made")]);
    await runs("made", OLD);
    await patiently(async () => deepStrictEqual(await orphans(), []));
    expect(await uids("made")).toEqual(before);
    const entries = (await written(mark)).filter((it) => it.endsWith("/made-us-dfw"));
    expect(entries.map((it) => it.split(" ")[0])).toEqual(["patch"]);
    await told("Orphaned");
    await told("Adopted");
    // The project was read uncached: its account has the right to that.
    expect(await refusedIn("web", restored)).toEqual([]);
  });
});

it("a project that is put back alone gets what its backup says: what it has made since ends", async () => {
  await remove("removed");
  const before = await uids("kept");
  await restore.get("web")?.();
  await runs("removed", OLD);
  await patiently(async () =>
    deepStrictEqual([await inCell("made"), await fixture.onHub("made-us-dfw")], [undefined, undefined]),
  );
  expect([await uids("kept"), await orphans()]).toEqual([before, []]);
  await create("made");
  await runs("made", OLD);
});

/** Until nothing of it is left, and no Withdrawal that would delete what comes back, or keep its name from the cell. */
async function remove(name: string): Promise<void> {
  await web.delete(workloads, { namespace: NAMESPACE, name });
  await patiently(async () => {
    const { items } = await web.list(workloads);
    deepStrictEqual(
      [await inCell(name), items.some(({ metadata }) => metadata?.name === name)],
      [undefined, false],
    );
  });
  // It stands for two minutes, as requests of an earlier leader may be late.
  for (const { metadata } of (await fixture.hub.list(withdrawals)).items)
    await fixture.hub.delete(withdrawals, { name: metadata?.name ?? "" });
  await patiently(async () => deepStrictEqual((await fixture.hub.list(withdrawals)).items, []));
}

/** An Event on the Cell. */
function told(reason: string): Promise<void> {
  return patiently(async () => {
    const { items } = await fixture.hub.list(events, { fieldSelector: `regarding.name=${CELL}` });
    ok(
      items.some((it) => it.reason === reason),
      `nothing tells of ${reason}`,
    );
  });
}

it("what a cell has from a backup, and was deleted since, runs on until a person forgets it", async () => {
  await remove("kept");
  await played[Symbol.asyncDispose]();
  await restore.get(CELL)?.();
  played = await playCells(cell, [CELL]);
  await patiently(async () => deepStrictEqual(await orphans(), ["acme/web/default/kept-us-dfw"]));
  // What it has lost is made again.
  await runs("made", OLD);
  const { namespace } = (await inCell("kept"))?.metadata ?? {};
  const orphan = `${namespace}/kept-us-dfw`;
  await berth("cell", "forget", CELL, orphan);
  expect(await inCell("kept")).toBeDefined();
  await berth("cell", "forget", CELL, orphan, "--yes");
  await patiently(async () => deepStrictEqual([await inCell("kept"), await orphans()], [undefined, []]));
  await told("Withdrawing");
});

it("a credential is replaced without a gap: nothing is listed or watched anew", async () => {
  const plane = fixture.plane(CELL);
  expect(conditionOf(await fixture.hub.get(cells, { name: CELL }), "CredentialExpiring")?.reason).toBe(
    "CredentialExpires",
  );
  const user = await plane.user("rotated", ["system:masters"]);
  const file = await fixture.writeKubeconfig("rotated", plane.kubeconfig({ user }));
  const mark = await plane.audit.mark();
  const hub = ["--hub-kubeconfig", await fixture.hubAdmin()];
  await runCommand("cell", "rotate", CELL, "--kubeconfig", file, ...hub);
  await changeWorkload(web, NAMESPACE, imageChange(NEW), "made");
  await runs("made", NEW);
  const entries = await plane.audit.entriesSince(mark, { user: "rotated" });
  const of = new Set(entries.map(({ verb, resource }) => `${verb} ${resource}`));
  expect([...of].filter((it) => /^(?:list|watch) (?:workload|instance|namespace)/.test(it))).toEqual([]);
  expect([...of]).toContain("patch workloaddeployments.compute.datumapis.com");
  await patiently(async () =>
    deepStrictEqual(
      conditionOf(await fixture.hub.get(cells, { name: CELL }), "CredentialExpiring"),
      undefined,
    ),
  );
});

it("nothing is written in a cell that was made anew at its address, until a person forgets it", async () => {
  await rebuild(fixture.plane(CELL));
  await patiently(async () => deepStrictEqual(await fixture.reachable(CELL), "False/WrongIdentity"));
  const mark = await fixture.plane(CELL).audit.mark();
  await changeWorkload(web, NAMESPACE, imageChange(OLD), "made");
  await patiently(async () => deepStrictEqual(imageOf(await fixture.onHub("made-us-dfw")), OLD));
  expect(await written(mark)).toEqual([]);
  expect((await cell.list(namespaces)).items.some(({ metadata }) => metadata?.name?.startsWith("ns-"))).toBe(
    false,
  );
});
