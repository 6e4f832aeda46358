/**
 * A hub and one cell in which everything goes wrong, one thing after the other: while a Workload comes, one changes, and
 * one goes. No write is lost, no number falls below what runs, and at rest nothing is written.
 */
import { deepStrictEqual } from "node:assert";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { workloads } from "@berth/fleet";
import { leases } from "@berth/kube";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HOME } from "../packages/fleet/src/testing/cell-actor.ts";
import { changeWorkload, imageChange } from "./fleet-fixture.ts";
import { type FaultStage, faultStage, faults, met, planes, WRITES } from "./hub-faults.ts";
import { patiently } from "./patience.ts";
import { type BerthProcess, documentsText, startBerthProcess } from "./product.ts";

let stage: FaultStage;
beforeAll(async () => {
  stage = await faultStage();
  await patiently(async () => deepStrictEqual(await stage.reachable(), "True/Heard"));
});
afterAll(() => stage[Symbol.asyncDispose]());

/** `make perturb` has all of them. */
const hasAll = process.env["BERTH_RUNS_FACTOR"] !== undefined;
const chosen = hasAll ? faults : faults.filter(({ isUsual }) => isUsual);
const LIMIT_MS = 120_000;

const inAllPlanes = (name: string) => Promise.all(planes.map((plane) => stage.deployment(plane, name)));

/** All planes agree, and the Workload has the numbers of the cell. */
async function isTrue(name: string, image: string): Promise<void> {
  const { metadata, status } = await stage.hub.get(workloads, { namespace: stage.namespace, name });
  const all = await inAllPlanes(name);
  deepStrictEqual(
    all.map((it) => [
      it?.spec?.template.spec.runtime.sandbox?.containers[0]?.image,
      it?.status?.readyReplicas,
      it?.status?.unheard,
    ]),
    all.map(() => [image, 2, undefined]),
  );
  deepStrictEqual(all[0]?.status?.observedGeneration, all[0]?.metadata?.generation);
  deepStrictEqual([status?.observedGeneration, status?.readyReplicas], [metadata?.generation, 2]);
}

const OLD = "registry.test/web:1";
const NEW = "registry.test/web:2";

describe("a cell of which", () => {
  it.each(chosen.map((fault, at) => [fault.name, fault, at] as const))(
    "%s",
    async (_, fault, at) => {
      const [changed, gone, made] = [`change-${at}`, `gone-${at}`, `made-${at}`];
      for (const name of [changed, gone]) await stage.create(name);
      await patiently(async () => {
        for (const name of [changed, gone]) await isTrue(name, OLD);
      });
      const said = [changed, gone].map((name) => stage.said.get(name)?.length ?? 0);
      const requests = stage.proxy.count(fault.meets ?? WRITES);
      const end = await fault.begin(stage);
      try {
        await stage.create(made);
        await changeWorkload(stage.hub, stage.namespace, imageChange(NEW), changed);
        await stage.hub.delete(workloads, { namespace: stage.namespace, name: gone });
        await met(fault, stage, requests);
        // The hub has done what it can do by itself.
        await patiently(async () => {
          const onHub = await stage.deployment("hub", changed);
          deepStrictEqual(onHub?.spec?.template.spec.runtime.sandbox?.containers[0]?.image, NEW);
        });
        await fault.meanwhile?.(stage, { changed, made });
      } finally {
        await end();
      }
      await patiently(async () => {
        await isTrue(changed, NEW);
        await isTrue(made, OLD);
        deepStrictEqual(await inAllPlanes(gone), [undefined, undefined, undefined]);
        deepStrictEqual(await stage.reachable(), "True/Heard");
      });
      for (const [index, name] of [changed, gone].entries())
        expect(Math.min(...(stage.said.get(name)?.slice(said[index]) ?? [2]), 2)).toBe(2);
      for (const name of [changed, made]) expect(stage.made.get(`${name}-us-dfw`)?.size).toBe(1);
      const writes = await stage.writes();
      const canary = `canary-${at}`;
      await stage.create(canary);
      await patiently(() => isTrue(canary, OLD));
      const others = (await writes()).filter((it) => !it.includes("canary") && !it.endsWith("/"));
      expect(others).toEqual([]);
    },
    LIMIT_MS,
  );
});

/** Between two deaths, ms. */
const EVERY_MS = 5_000;
const DEATHS = 12;

it("F3 of two replicas, the one that leads is killed every 5 s for a minute", async ({ skip }) => {
  skip(!hasAll, "it takes more than a minute: `make perturb` has it");
  await stage.stopBerth();
  await using folder = await mkdtempDisposable(path.join(tmpdir(), "hub-replicas-"));
  const file = async (name: string, text: string): Promise<string> => {
    await writeFile(path.join(folder.path, name), text, { mode: 0o600 });
    return path.join(folder.path, name);
  };
  const spec = { mode: "management", hub: "self", projects: "self" };
  const config = await file("fleet.yaml", documentsText([{ kind: "Fleet", name: "fleet", spec }]));
  const kubeconfig = await file("kubeconfig", stage.hubKubeconfig);
  const addresses = ["--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0"];
  const args = ["run", "--config", config, "--kubeconfig", kubeconfig, "--namespace", HOME, ...addresses];
  const replicas = new Map<string, BerthProcess>();
  let born = 0;
  const start = (): void => {
    born += 1;
    const name = `replica-${born}`;
    const environment = { POD_NAME: name };
    replicas.set(name, startBerthProcess({ args: [...args, "--leader-elect"], environment }));
  };
  start();
  start();
  const leader = async (): Promise<string> =>
    (await stage.hub.get(leases, { namespace: HOME, name: "compute-management" })).spec?.holderIdentity ?? "";
  await stage.create("lasting");
  await patiently(() => isTrue("lasting", OLD));
  const said = stage.said.get("lasting")?.length ?? 0;
  let killed = 0;
  for (let death = 1; death <= DEATHS; death += 1) {
    await stage.create(`short-${death}`);
    await changeWorkload(
      stage.hub,
      stage.namespace,
      imageChange(`registry.test/web:${death + 1}`),
      "lasting",
    );
    if (death > 1)
      await stage.hub.delete(workloads, { namespace: stage.namespace, name: `short-${death - 1}` });
    await delay(EVERY_MS);
    const holder = await leader();
    const [name, found] = [...replicas].find(([it]) => holder.startsWith(`${it}_`)) ?? [];
    // That of one that was killed, until its Lease runs out.
    if (name === undefined || found === undefined) continue;
    replicas.delete(name);
    await found.kill();
    killed += 1;
    start();
  }
  // A Lease runs out 15 s after its holder was killed.
  expect(killed).toBeGreaterThan(2);
  await patiently(async () => {
    await isTrue("lasting", `registry.test/web:${DEATHS + 1}`);
    await isTrue(`short-${DEATHS}`, OLD);
    for (let death = 1; death < DEATHS; death += 1)
      deepStrictEqual(await inAllPlanes(`short-${death}`), [undefined, undefined, undefined]);
  });
  expect(Math.min(...(stage.said.get("lasting")?.slice(said) ?? []))).toBe(2);
  expect(stage.made.get("lasting-us-dfw")?.size).toBe(1);
  for (const replica of replicas.values()) await replica[Symbol.asyncDispose]();
}, 300_000);
