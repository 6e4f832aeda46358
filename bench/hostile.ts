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
  const honest = { url, phaseMs: PHASE_MS, everyMs: EVERY_MS, bodyOf: () => BODY };
  await reviewsFor(berth, honest);
  const alone = await reviewsFor(berth, honest);
  const figures: Figure[] = [];
  for (const kind of ["named", "within"] as const) {
    onProgress(`the same while 127.0.0.2 attacks, ${kind}`);
    figures.push(...toFigures(kind, alone, await underAttack(berth, honest, kind)));
  }
  return figures;
}

/** `named`: bodies of the sizes that were found to do harm. `within`: those that cost most of what the server takes. */
type Kind = "named" | "within";

async function underAttack(berth: MeasuredProcess, honest: Reviewing, kind: Kind): Promise<Reviews> {
  const program = join(import.meta.dirname, "children/hostile-peer.ts");
  const args = [...process.execArgv, program, honest.url, kind];
  const command = process.execPath;
  await using attacker = startProgram({ name: "the hostile peer", command, args, userAgent: "none" });
  await attacker.line("attacking");
  const attacked = await reviewsFor(berth, honest);
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
      what: `${what}: not allowed`,
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

/** How reviews are sent. */
export interface Reviewing {
  readonly url: string;
  /** For so long. */
  readonly phaseMs: number;
  readonly everyMs: number;
  readonly bodyOf: (index: number) => string;
}

export interface Reviews {
  /** Milliseconds. */
  readonly times: readonly number[];
  /** Of these the ones over a connection of their own. */
  readonly fresh: readonly number[];
  /** Those that were not answered 200, or not allowed. */
  readonly failed: number;
  /** The first answer of these. */
  readonly why?: string;
  /** Resident bytes, at most. */
  readonly most: number;
}

export async function reviewsFor(
  berth: MeasuredProcess,
  { url, phaseMs, everyMs, bodyOf }: Reviewing,
): Promise<Reviews> {
  const times: number[] = [];
  const fresh: number[] = [];
  let [failed, most] = [0, 0];
  let why: string | undefined;
  using _over = { [Symbol.dispose]: () => kept.destroy() };
  const kept = new Agent({ keepAlive: true, rejectUnauthorized: false });
  const startedAt = performance.now();
  const endsAt = startedAt + phaseMs;
  const sampled = (async () => {
    while (performance.now() < endsAt) {
      most = Math.max(most, (await berth.memory()).resident);
      await delay(100);
    }
  })();
  const sent: Promise<void>[] = [];
  for (let index = 0; performance.now() < endsAt; index++) {
    const send = async (): Promise<void> => {
      const sentAt = performance.now();
      const refusal = await review(url, bodyOf(index), index % 10 === 0 ? undefined : kept).catch(String);
      times.push(performance.now() - sentAt);
      if (index % 10 === 0) fresh.push(performance.now() - sentAt);
      if (refusal === undefined) return;
      failed++;
      why ??= refusal;
    };
    sent.push(send());
    // A timer is late by a millisecond or so, which must not add up.
    await delay(Math.max(0, startedAt + (index + 1) * everyMs - performance.now()));
  }
  await Promise.all([...sent, sampled]);
  return { times, fresh, failed, most, ...(why !== undefined && { why }) };
}

/** @returns the answer, if it was not allowed; over a connection of its own without an agent. */
async function review(url: string, body: string, agent: Agent | undefined): Promise<string | undefined> {
  const asked = request(url, { method: "POST", agent: agent ?? false, rejectUnauthorized: false });
  asked.setHeader("content-length", body.length).end(body);
  const [response] = await once(asked, "response");
  const text = (await response.toArray()).join("");
  const isAllowed = response.statusCode === 200 && JSON.parse(text).response?.allowed === true;
  return isAllowed ? undefined : `HTTP ${response.statusCode}: ${text.slice(0, 500)}`;
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
