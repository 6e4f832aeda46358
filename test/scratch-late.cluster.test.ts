import { setTimeout as delay } from "node:timers/promises";
import { cells, instances, withdrawals, workloadDeployments, workloads } from "@berth/fleet";
import { expect, it } from "vitest";
import { faultStage } from "./hub-faults.ts";
import { patiently } from "./patience.ts";

const CELL = "dfw-01";
it.each([1, 2, 3, 4])("late %s", async () => {
  await using stage = await faultStage();
  await patiently(async () => expect(await stage.reachable()).toBe("True/Heard"));
  const cellAt = Math.random() * 3_000;
  const cell = (async () => {
    await delay(cellAt);
    await stage.hub.delete(cells, { name: CELL });
  })();
  const one = async (at: number): Promise<string> => {
    const name = `r-${at}`;
    const [d0, d1] = [Math.random() * 3_000, Math.random() * 2_500];
    await delay(d0);
    await stage.create(name);
    await delay(d1);
    await stage.hub.delete(workloads, { namespace: "default", name });
    const t0 = performance.now();
    const seen: Record<string, number> = {};
    for (;;) {
      const [p, h, c] = await Promise.all((["project", "hub", "cell"] as const).map((it) => stage.deployment(it, name)));
      const ms = Math.round(performance.now() - t0);
      for (const [k, v] of Object.entries({ p, h, c })) if (v === undefined) seen[k] ??= ms; else delete seen[k];
      if (Object.keys(seen).length === 3) return `${name} created ${Math.round(d0)} cell ${Math.round(cellAt)} deleted ${Math.round(d0 + d1)}: ${JSON.stringify(seen)}`;
      if (ms > 30_000) {
        const copies = (await stage.hub.list(instances)).items.map((it) => `${it.metadata?.namespace}/${it.metadata?.name} ${it.metadata?.deletionTimestamp}`);
        return `STUCK ${name} created ${Math.round(d0)} cell ${Math.round(cellAt)} deleted ${Math.round(d0 + d1)} ${JSON.stringify(seen)} ${JSON.stringify({ p: p?.metadata, h: h?.metadata, c: c?.metadata }, undefined, 1)} ${JSON.stringify((await stage.hub.list(withdrawals)).items.map((it) => it.spec))} ${copies}`;
      }
      await delay(100);
    }
  };
  for (const line of await Promise.all(Array.from({ length: 12 }, (_, at) => one(at)))) console.log(line);
  await cell;
  void workloadDeployments;
}, 600_000);
