/** Pods of known images: what their creation costs with nobody asked, with a webhook that sends the same patch, and with Berth. */
import { setTimeout as delay } from "node:timers/promises";
import { type JsonPatchOperation, type Pod, pods } from "@berth/kube";
import { ARCHITECTURE_GATE, ORIGINAL_ARCHITECTURE_KEY } from "@berth/placement";
import { type AuditEntry, eventually } from "@berth/testcluster";
import {
  type ArchitectureStage,
  creation,
  dryRun,
  type Handling,
  handlingOf,
  type Mode,
  NAMESPACE_OF_PODS,
  type ReadyProcess,
} from "./architecture-stage.ts";
import { median, quantile } from "./report.ts";

/** Whom the API server asks about each pod. */
export type Asked = "nobody" | "fixed" | "berth";

export interface CreationOptions {
  readonly mode: Mode;
  /** Of each block. */
  readonly pods: number;
  /** Two of them for each pod. All are known to Berth, by an earlier run. */
  readonly images: readonly string[];
  /** Blocks of one process, one after the other. */
  readonly blocks: number;
  readonly rounds: number;
  readonly onProgress: (text: string) => void;
}

/** One block of creations. */
export interface Creation {
  /** From the first request to the last answer, ms. */
  readonly tookMs: number;
  /** Of each creation, as its client sees it, ms. */
  readonly latencies: readonly number[];
  /** What the webhook itself took for them. */
  readonly handling: Handling;
  /** CPU of whoever was asked, ms. */
  readonly cpuMs: number;
  /** What Berth wrote until a second after the last of them; leases and what it keeps for itself included. */
  readonly writes: readonly AuditEntry[];
}

export type Round = Readonly<Record<Asked, readonly Creation[]>>;

/** Dry runs before the first block: connections are made, and code is compiled. */
const WARM_UP = 200;
/** Whatever Berth had left to do would have been written by then. Milliseconds. */
const SETTLE_MS = 1000;
/** In turn, so that neither profits from coming later. */
const ORDERS: readonly (readonly Asked[])[] = [
  ["nobody", "fixed", "berth"],
  ["berth", "fixed", "nobody"],
];

export async function measureCreation(
  stage: ArchitectureStage,
  options: CreationOptions,
): Promise<readonly Round[]> {
  const patch = await patchOfBerth(stage, options);
  const rounds: Round[] = [];
  for (let index = 0; index < options.rounds; index++) {
    const round: Record<Asked, readonly Creation[]> = { nobody: [], fixed: [], berth: [] };
    for (const asked of ORDERS[index % ORDERS.length] ?? [])
      round[asked] = await createWith(stage, asked, { ...options, patch });
    rounds.push(round);
    const took = (asked: Asked): string => `${tookOf(round[asked]).toFixed(0)} ms`;
    options.onProgress(
      `creating ${options.pods} pods (${options.mode}), ${index + 1} of ${options.rounds}: ` +
        `${took("nobody")} with nobody asked, ${took("fixed")} with a webhook that sends the same patch, ${took("berth")} with Berth`,
    );
  }
  return rounds;
}

/** Of the blocks of one process, ms. */
export function tookOf(blocks: readonly Creation[]): number {
  return median(blocks.map(({ tookMs }) => tookMs));
}

/** What Berth changes of the first pod. */
async function patchOfBerth(
  stage: ArchitectureStage,
  { mode, images }: CreationOptions,
): Promise<readonly JsonPatchOperation[]> {
  try {
    await using _ = await startKnowing(stage, { mode, images });
    const { text } = await stage.raw.send(dryRun(nth(0, images)), { read: true });
    const { metadata, spec } = JSON.parse(text) as Pod;
    return [
      { op: "add", path: "/metadata/annotations", value: metadata?.annotations ?? {} },
      { op: "add", path: "/spec/affinity", value: spec?.affinity },
      ...(mode === "Both"
        ? [{ op: "add", path: "/spec/tolerations", value: spec?.tolerations } as const]
        : []),
    ];
  } finally {
    await stage.askNobody();
  }
}

type WithPatch = CreationOptions & { readonly patch: readonly JsonPatchOperation[] };

async function createWith(
  stage: ArchitectureStage,
  asked: Asked,
  options: WithPatch,
): Promise<readonly Creation[]> {
  try {
    await using process = await start(stage, asked, options);
    await warmUp(stage, options);
    const blocks: Creation[] = [];
    for (let block = 0; block < options.blocks; block++)
      blocks.push(await createBlock(stage, process, options));
    return blocks;
  } finally {
    await stage.askNobody();
  }
}

async function start(
  stage: ArchitectureStage,
  asked: Asked,
  { mode, images, patch }: WithPatch,
): Promise<ReadyProcess | undefined> {
  if (asked === "nobody") return undefined;
  if (asked === "fixed") return stage.startPatching(mode, patch);
  return startKnowing(stage, { mode, images });
}

/** Berth, once it knows the images. */
async function startKnowing(
  stage: ArchitectureStage,
  { mode, images }: Pick<CreationOptions, "mode" | "images">,
): Promise<ReadyProcess> {
  await using owned = new AsyncDisposableStack();
  const berth = owned.use(await stage.startBerth(mode));
  await untilKnown(stage, images);
  owned.move();
  return berth;
}

/** What an earlier process has kept about these images has been read: a pod of them is not held. */
async function untilKnown({ raw }: ArchitectureStage, images: readonly string[]): Promise<void> {
  for (const image of images) {
    const request = dryRun(creation("known", [image]));
    await eventually(async () => {
      const { text } = await raw.send(request, { read: true });
      if (!isPlaced(JSON.parse(text) as Pod)) throw new Error(`${image} is not known`);
    });
  }
}

async function warmUp({ raw }: ArchitectureStage, options: CreationOptions): Promise<void> {
  const indexes = Array.from({ length: WARM_UP }, (_, index) => index);
  await raw.sendAll(indexes.map((index) => dryRun(nth(index, options.images))));
}

async function createBlock(
  stage: ArchitectureStage,
  process: ReadyProcess | undefined,
  options: CreationOptions,
): Promise<Creation> {
  const { cluster, raw } = stage;
  const requests = Array.from({ length: options.pods }, (_, index) => nth(index, options.images));
  const mark = await cluster.audit.mark();
  const before = process && (await handlingOf(process));
  const cpuBefore = (await process?.cpuMs()) ?? 0;
  const answers = await raw.sendAll(requests);
  const cpuMs = ((await process?.cpuMs()) ?? 0) - cpuBefore;
  const after = process && (await handlingOf(process));
  process?.ended.throwIfAborted();
  const isBerth = process?.userAgent.startsWith("berth") === true;
  if (isBerth) await checkPlaced(stage, options);
  if (isBerth) await delay(SETTLE_MS);
  const entries = isBerth
    ? await cluster.audit.entriesSince(mark, { userAgent: process?.userAgent ?? "" })
    : [];
  await stage.clear();
  return {
    tookMs:
      Math.max(...answers.map(({ answeredAt }) => answeredAt)) -
      Math.min(...answers.map(({ sentAt }) => sentAt)),
    latencies: answers.map(({ sentAt, answeredAt }) => answeredAt - sentAt),
    handling: difference(after, before),
    cpuMs,
    writes: entries.filter(({ verb }) => verb !== "get" && verb !== "list" && verb !== "watch"),
  };
}

/** Two containers each, in every combination of neighbours and of such that are further apart. */
export function nth(index: number, images: readonly string[]): ReturnType<typeof creation> {
  const first = index % images.length;
  const second = (first + 1 + Math.floor(index / images.length)) % images.length;
  return creation(`pod-${index}`, [images[first] ?? "", images[second] ?? ""]);
}

/** @throws when a pod came without its architectures: what was measured would be something else. */
async function checkPlaced(
  { cluster }: ArchitectureStage,
  { pods: expected, mode }: CreationOptions,
): Promise<void> {
  let placed = 0;
  for await (const { items } of cluster.client.pages(pods, { namespace: NAMESPACE_OF_PODS }))
    placed += items.filter((pod) => isPlaced(pod) && (mode === "Affinity" || tolerates(pod))).length;
  if (placed !== expected) throw new Error(`${placed} of ${expected} pods were placed at their creation`);
}

/** Kept to architectures, and not held. */
export function isPlaced(pod: Pod): boolean {
  const required = pod.spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const isNarrowed = required?.nodeSelectorTerms.every(({ matchExpressions = [] }) =>
    matchExpressions.some(({ key }) => key === "kubernetes.io/arch"),
  );
  return isNarrowed === true && !isHeld(pod);
}

function isHeld({ spec }: Pod): boolean {
  return spec?.schedulingGates?.some(({ name }) => name === ARCHITECTURE_GATE) === true;
}

function tolerates({ spec }: Pod): boolean {
  return spec?.tolerations?.some(({ key }) => key === ORIGINAL_ARCHITECTURE_KEY) === true;
}

function difference(after: Handling | undefined, before: Handling | undefined): Handling {
  const earlier = new Map(before?.buckets);
  const buckets = (after?.buckets ?? []).map(
    ([bound, count]) => [bound, count - (earlier.get(bound) ?? 0)] as const,
  );
  return { requests: buckets.at(-1)?.[1] ?? 0, buckets };
}

/** Of several blocks together. */
export function sumHandling(all: readonly Handling[]): Handling {
  const counts = new Map<number, number>();
  for (const { buckets } of all)
    for (const [bound, count] of buckets) counts.set(bound, (counts.get(bound) ?? 0) + count);
  const buckets = [...counts].sort(([a], [b]) => a - b);
  return { requests: buckets.at(-1)?.[1] ?? 0, buckets };
}

/**
 * As `histogram_quantile` of Prometheus has it: within a bucket, requests are taken to be spread evenly. ms; infinite
 * when it lies beyond the last bound.
 */
export function handlingQuantile({ requests, buckets }: Handling, share: number): number {
  const rank = requests * share;
  let [low, below] = [0, 0];
  for (const [bound, count] of buckets) {
    if (count >= rank && count > below)
      return Number.isFinite(bound) ? low + ((bound - low) * (rank - below)) / (count - below) : bound;
    [low, below] = [bound, count];
  }
  return Number.NaN;
}

export function latencyText(blocks: readonly Creation[]): string {
  const all = blocks.flatMap(({ latencies }) => latencies);
  return `p50 ${quantile(all, 0.5).toFixed(1)} ms, p99 ${quantile(all, 0.99).toFixed(1)} ms`;
}
