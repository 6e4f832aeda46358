/** Honest reviews while a hostile peer attacks the webhook: how long they take, what is refused, and what memory it costs. */
import { once } from "node:events";
import { Agent, request } from "node:https";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { mutatingWebhookConfigurations } from "@berth/kube";
import { aPod, startRegistry } from "@berth/testcluster";
import { startArchitectureStage } from "./architecture-stage.ts";
import { type MeasuredProcess, startProgram } from "./process.ts";
import { type Figure, quantile } from "./report.ts";

const MB = 1024 * 1024;
const PHASE_MS = 6000;
/** Of them every tenth over a connection of its own. */
const EVERY_MS = 15;

export interface HostileOptions {
  readonly onProgress: (text: string) => void;
  readonly onServer: (version: string) => void;
}

export async function benchHostile({ onProgress, onServer }: HostileOptions): Promise<readonly Figure[]> {
  await using registry = await startRegistry();
  await using stage = await startArchitectureStage({ registry, onProgress });
  const { client } = stage.cluster;
  onServer(JSON.parse(await client.read("/version")).gitVersion);
  await using berth = await stage.startBerth("Both");
  const { items } = await client.list(mutatingWebhookConfigurations);
  const { url = "" } = items[0]?.webhooks?.[0]?.clientConfig ?? {};
  onProgress("honest reviews alone");
  await reviewsFor(berth, url);
  const alone = await reviewsFor(berth, url);
  const figures: Figure[] = [];
  for (const kind of ["named", "within"] as const) {
    onProgress(`the same while 127.0.0.2 attacks, ${kind}`);
    figures.push(...toFigures(kind, alone, await underAttack(berth, url, kind)));
  }
  return figures;
}

/** `named`: bodies of the sizes that were found to do harm. `within`: those that cost most of what the server takes. */
type Kind = "named" | "within";

async function underAttack(berth: MeasuredProcess, url: string, kind: Kind): Promise<Reviews> {
  const program = join(import.meta.dirname, "children/hostile-peer.ts");
  const args = [...process.execArgv, program, url, kind];
  const command = process.execPath;
  await using attacker = startProgram({ name: "the hostile peer", command, args, userAgent: "none" });
  await attacker.line("attacking");
  const attacked = await reviewsFor(berth, url);
  attacker.ended.throwIfAborted();
  return attacked;
}

/** Budgets are for the attacks that were named. What the server takes also costs it what the collector leaves for later. */
function toFigures(kind: Kind, alone: Reviews, attacked: Reviews): readonly Figure[] {
  const what = `reviews under attack, ${kind === "named" ? "bodies beyond the limits" : "bodies within the limits"}`;
  const budget = (most: number): object => (kind === "named" ? { budget: most } : {});
  return [
    {
      id: `hostile-${kind}-p99`,
      what: `${what}: p99`,
      value: quantile(attacked.times, 0.99),
      unit: "ms",
      ...budget(100),
      detail: `${attacked.times.length} reviews: ${text(attacked)}; alone: ${text(alone)}`,
    },
    {
      id: `hostile-${kind}-refused`,
      what: `${what}: not answered 200`,
      value: attacked.failed,
      unit: "requests",
      budget: 0,
    },
    {
      id: `hostile-${kind}-memory`,
      what: `${what}: resident at most, over that without attack`,
      value: attacked.most / alone.most,
      unit: "x",
      ...budget(1.3),
      detail: "read every 100 ms",
    },
  ];
}

function text({ times, fresh, most }: Reviews): string {
  const [p50, p99] = [quantile(times, 0.5), quantile(times, 0.99)].map((ms) => ms.toFixed(1));
  const more = `at most ${Math.max(...times).toFixed(0)} ms, new connections p50 ${quantile(fresh, 0.5).toFixed(1)} ms`;
  return `p50 ${p50} ms, p99 ${p99} ms, ${more}, ${(most / MB).toFixed(0)} MB`;
}

interface Reviews {
  /** Milliseconds. */
  readonly times: readonly number[];
  /** Of these the ones over a connection of their own. */
  readonly fresh: readonly number[];
  /** Those that were not answered 200. */
  readonly failed: number;
  /** Resident bytes, at most. */
  readonly most: number;
}

async function reviewsFor(berth: MeasuredProcess, url: string): Promise<Reviews> {
  const times: number[] = [];
  const fresh: number[] = [];
  let [failed, most] = [0, 0];
  using _over = { [Symbol.dispose]: () => kept.destroy() };
  const kept = new Agent({ keepAlive: true, rejectUnauthorized: false });
  const endsAt = performance.now() + PHASE_MS;
  const sampled = (async () => {
    while (performance.now() < endsAt) {
      most = Math.max(most, (await berth.memory()).resident);
      await delay(100);
    }
  })();
  const sent: Promise<void>[] = [];
  for (let index = 0; performance.now() < endsAt; index++) {
    const send = async (): Promise<void> => {
      const startedAt = performance.now();
      const status = await review(url, index % 10 === 0 ? undefined : kept).catch(() => 0);
      times.push(performance.now() - startedAt);
      if (index % 10 === 0) fresh.push(performance.now() - startedAt);
      if (status !== 200) failed++;
    };
    sent.push(send());
    await delay(EVERY_MS);
  }
  await Promise.all([...sent, sampled]);
  return { times, fresh, failed, most };
}

/** @returns the status; over a connection of its own without an agent. */
async function review(url: string, agent: Agent | undefined): Promise<number | undefined> {
  const asked = request(url, { method: "POST", agent: agent ?? false, rejectUnauthorized: false });
  asked.setHeader("content-length", BODY.length).end(BODY);
  const [response] = await once(asked, "response");
  response.resume();
  await once(response, "end");
  return response.statusCode;
}

/** 10 KB. A dry run: nothing follows from it. */
const BODY: string = JSON.stringify({
  apiVersion: "admission.k8s.io/v1",
  kind: "AdmissionReview",
  request: {
    uid: "honest",
    kind: { group: "", version: "v1", kind: "Pod" },
    operation: "CREATE",
    namespace: "default",
    dryRun: true,
    object: aPod("honest")
      .image("registry.test/app:1")
      .with((pod) => ({ ...pod, metadata: { ...pod.metadata, annotations: { about: "x".repeat(9000) } } }))
      .build(),
  },
});
