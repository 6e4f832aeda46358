import { createMetricsRegistry, type Logger } from "@berth/runtime";
import { expect, it } from "vitest";
import { labels } from "../../api/keys.ts";
import type { Instance } from "../../api/workload.ts";
import { copy, withMetadata } from "../../hub/testing/instances.ts";
import { quarantine } from "./quarantine.ts";
import { hubWorld } from "./testing/hub-world.ts";

it("A25 R25 H21 a copy that no project can show is told of once and counted, until its labels are right", async () => {
  const { clock, copies, parts } = hubWorld();
  const metrics = createMetricsRegistry({ processMetrics: false });
  const told: unknown[] = [];
  const log = { warn: (_: string, fields: object) => told.push(fields) } as unknown as Logger;
  const stop = new AbortController();
  const component = quarantine({ ...parts, host: { ...parts.host, metrics, log } });
  const { ended } = await component.start(stop.signal);
  const counted = async (): Promise<string | undefined> => {
    await clock.advance(10_000);
    const { body } = await metrics.expose();
    return /quarantined_objects\{reason="IdentityMissing"\} (\d)/.exec(body)?.[1];
  };
  const { [labels.upstreamCluster]: _, ...wrong } = copy.metadata?.labels ?? {};
  const unlabelled: Instance = withMetadata(copy, { labels: wrong });
  copies.set(unlabelled);
  for (let look = 0; look < 60; look += 1) expect(await counted()).toBe("1");
  expect(told).toEqual([{ reason: "IdentityMissing" }]);
  copies.set(copy);
  expect(await counted()).toBe("0");
  stop.abort();
  await ended;
});
