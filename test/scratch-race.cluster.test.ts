import { setTimeout as delay } from "node:timers/promises";
import { cells, withdrawals, workloadDeployments, workloads } from "@berth/fleet";
import { isApiError } from "@berth/kube";
import { expect, it } from "vitest";
import { faultStage } from "./hub-faults.ts";
import { patiently } from "./patience.ts";

const CELL = "dfw-01";
it("race", async () => {
  await using stage = await faultStage();
  await patiently(async () => expect(await stage.reachable()).toBe("True/Heard"));
  const { spec } = await stage.hub.get(cells, { name: CELL });
  if (process.env["RACE_LATE"] !== "1") await delay(26_000);
  const rounds = Number(process.env["ROUNDS"] ?? 30);
  for (let at = 0; at < rounds; at += 1) {
    const name = `r-${at}`;
    const d1 = Math.floor(Math.random() * 1_500);
    const d2 = Math.floor(Math.random() * 1_000);
    const order = Math.random() < 0.5;
    await stage.create(name);
    await delay(d1);
    if (order) await stage.hub.delete(cells, { name: CELL });
    await delay(d2);
    await stage.hub.delete(workloads, { namespace: "default", name });
    if (!order) await stage.hub.delete(cells, { name: CELL });
    const t0 = performance.now();
    const marks: string[] = [];
    const gone = new Set<string>();
    for (;;) {
      const [p, h, c] = await Promise.all(
        (["project", "hub", "cell"] as const).map((it) => stage.deployment(it, name)),
      );
      const w = (await stage.hub.list(withdrawals)).items.filter((it) => it.spec?.name.startsWith(name));
      const cell = await stage.hub.get(cells, { name: CELL }).catch((e: unknown) => {
        if (isApiError(e, "notFound")) return undefined;
        throw e;
      });
      const ms = Math.round(performance.now() - t0);
      const now = { p, h, c, w: w.length > 0 ? w : undefined, cell };
      for (const [k, v] of Object.entries(now))
        if (v === undefined && !gone.has(k)) {
          gone.add(k);
          marks.push(`${k}@${ms}`);
        }
      for (const [k, v] of Object.entries(now))
        if (v !== undefined && gone.delete(k)) marks.push(`${k}+@${ms}`);
      if (gone.size === 5) break;
      if (ms > 40_000 && !marks.includes("late")) {
        marks.push("late");
        console.log(JSON.stringify({ p, h, c, w, cell }, undefined, 1));
        console.log(
          (await stage.hub.list(workloadDeployments)).items
            .map((it) => `${it.metadata?.namespace}/${it.metadata?.name}`)
            .join(),
        );
      }
      if (ms > 120_000) throw new Error(`stuck ${name} ${marks.join(" ")}`);
      await delay(50);
    }
    console.log(name, `order=${order ? "cell first" : "workload first"} d1=${d1} d2=${d2}`, marks.join(" "));
    await stage.hub.create(cells, { metadata: { name: CELL }, spec } as never);
    await patiently(async () => expect(await stage.reachable()).toBe("True/Heard"));
  }
}, 3_600_000);
