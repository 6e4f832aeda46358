/** A link that swallows packets and resets nothing: how long until Berth watches again, at its defaults. */
import { setTimeout as delay } from "node:timers/promises";
import { startTcpProxy } from "@berth/testcluster";
import { receivedAt, waitForPatches } from "./audit.ts";
import type { BenchCluster } from "./bench-cluster.ts";
import { startProgram } from "./process.ts";
import type { Figure } from "./report.ts";

/** The steady state before the fault: the watch has held for a while, pings go to and fro. */
const STEADY_MS = 3000;
const GIVE_UP_MS = 180_000;

export async function benchDeadLink(
  bench: BenchCluster,
  onProgress: (text: string) => void,
): Promise<readonly Figure[]> {
  const { cluster, withDevice, withoutDevice } = bench;
  await bench.reset();
  await using proxy = await startTcpProxy({ target: new URL(cluster.url) });
  const startMark = await cluster.audit.mark();
  await using berth = startProgram(await bench.berth(proxy.url));
  await waitForPatches(cluster, startMark, berth, { expected: withDevice.length, timeoutMs: GIVE_UP_MS });
  await delay(STEADY_MS);
  onProgress("the link swallows everything from now on");
  const mark = await cluster.audit.mark();
  const deadAt = Date.now();
  proxy.drop();
  await bench.addDevice(withoutDevice.at(-1) ?? "");
  // The event of that change is lost. What lost something stays silent for good; new connections work again.
  await proxy.until(({ serverToClient }) => serverToClient.dropped > 0);
  proxy.pass();
  const { lastAt } = await waitForPatches(cluster, mark, berth, { expected: 1, timeoutMs: GIVE_UP_MS });
  const watches = await cluster.audit.entriesSince(mark, {
    verb: "watch",
    resource: "nodes",
    userAgent: berth.userAgent,
  });
  const again = watches.map(receivedAt)[0] ?? Number.NaN;
  await bench.reset();
  return [
    {
      id: "dead-link",
      what: "dead link: until the watch was replaced",
      value: (again - deadAt) / 1000,
      unit: "s",
      budget: 45,
      detail: `packets swallowed without a reset; what had changed meanwhile was labelled after ${((lastAt - deadAt) / 1000).toFixed(1)} s`,
    },
  ];
}
