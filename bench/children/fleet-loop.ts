/**
 * A process of its own: sends the requests that another program has sent, and decides nothing. It waits only for pods to
 * become Ready. Runs from source. `fleet-loop.ts FILE`; prints `done` and ends.
 */
import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { bearerToken, connect, type Pod, pods } from "@berth/kube";
import type { Loop, Step } from "../fleet-loop.ts";
import { watchObjects } from "../object-sight.ts";
import { openRawSender } from "../raw-requests.ts";

/** As many as Berth has for writes. */
const CONNECTIONS = 16;
const POLL_MS = 5;
const TIMEOUT_MS = 600_000;

const [file = ""] = process.argv.slice(2);
const { target, userAgent, namespace, lanes } = JSON.parse(await readFile(file, "utf8")) as Loop;
await using raw = openRawSender(target, { connections: CONNECTIONS, userAgent });
await using client = connect({
  server: target.url,
  ca: target.ca,
  credential: bearerToken(target.token),
  userAgent,
});
await using sight = await watchObjects<Pod>(client, {
  resource: pods,
  namespace,
  project: ({ metadata, status }) => ({ ...(metadata && { metadata }), ...(status && { status }) }),
});
const signal = AbortSignal.timeout(TIMEOUT_MS);
const isReady = ({ status }: Pod): boolean =>
  status?.conditions?.some((it) => it.type === "Ready" && it.status === "True") === true;
const all = lanes.deployments.reduce((sum, { length }) => sum + length, 0);
let sent = 0;

async function follow(steps: readonly Step[]): Promise<void> {
  const ready = new Map<string, Promise<number>>();
  for (const [at, step] of steps.entries()) {
    await ready.get(step.awaits ?? "");
    // The pod that the next waiting step is about is created by this one, at the earliest.
    const next = steps.slice(at + 1).find(({ awaits }) => awaits !== undefined)?.awaits;
    if (next !== undefined && !ready.has(next)) ready.set(next, sight.until(next, isReady, signal));
    await raw.send(step);
    sent += 1;
  }
}

async function beside(steps: readonly Step[]): Promise<void> {
  for (const [at, step] of steps.entries()) {
    while (sent < (all * at) / steps.length) await delay(POLL_MS, undefined, { signal });
    await raw.send(step);
  }
}

for (const step of lanes.first) await raw.send(step);
await Promise.all([...lanes.deployments.map(follow), ...lanes.beside.map(beside)]);
console.log("done");
