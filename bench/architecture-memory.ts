/** What pods that have their node cost Berth: it must not even receive them. */
import { setTimeout as delay } from "node:timers/promises";
import { namespaces } from "@berth/kube";
import { aPod } from "@berth/testcluster";
import type { ArchitectureStage } from "./architecture-stage.ts";
import { post } from "./gate-stage.ts";
import type { Figure } from "./report.ts";

export interface ArchitectureMemoryOptions {
  /** Pods that have their node. */
  readonly pods: number;
  /** Seconds. */
  readonly restSeconds: number;
  readonly onProgress: (text: string) => void;
}

const MB = 1024 * 1024;
/** As for the gates: more than two runs of one process differ, and much less than a cache of 30,000 pods. MB. */
const NOISE_MB = 15;
/** A small cluster is at rest sooner than a large one. Seconds. */
const MOST_REST = 10;
const NAMESPACE = "bench-foreign";
const NODES = 300;

interface Held {
  /** Bytes. */
  readonly resident: number;
  /** In its cache of pods. */
  readonly pods: number;
  /** Lists and watches of pods, by their selectors. */
  readonly asked: readonly string[];
}

export async function benchArchitectureMemory(
  stage: ArchitectureStage,
  options: ArchitectureMemoryOptions,
): Promise<readonly Figure[]> {
  const { pods: count, onProgress } = options;
  const alone = await holdTwice(stage, options);
  onProgress(`creating ${count} pods that have their node`);
  await addForeignPods(stage, count);
  const among = await holdTwice(stage, options);
  const what = `${count} pods that have their node`;
  const other = among.asked.filter((request) => !request.includes("spec.nodeName="));
  return [
    {
      id: "architecture-memory-foreign",
      what: `${what}: resident memory that these add`,
      value: (among.resident - alone.resident) / MB,
      unit: "MB",
      budget: NOISE_MB,
      detail: `${mb(alone)} without them, ${mb(among)} with them; the lesser of two runs each; budget: what such runs differ by`,
    },
    {
      id: "architecture-memory-received",
      what: `${what}: of these in Berth's cache, and lists and watches that could bring them`,
      value: among.pods + other.length,
      unit: "requests",
      budget: 0,
      detail: `asked: ${[...new Set(among.asked)].join(", ")}`,
    },
  ];
}

async function addForeignPods({ cluster, raw }: ArchitectureStage, count: number): Promise<void> {
  const metadata = { name: NAMESPACE };
  await cluster.client.create(namespaces, { apiVersion: "v1", kind: "Namespace", metadata });
  await raw.sendAll(
    Array.from({ length: count }, (_, index) => {
      const pod = aPod(`foreign-${index}`)
        .in(NAMESPACE)
        .on(`node-${index % NODES}`);
      return post(
        `/api/v1/namespaces/${NAMESPACE}/pods`,
        pod.container("side", "registry.test/side:1").build(),
      );
    }),
  );
}

/** The lesser of two runs: when garbage is collected differs from run to run by more than what is looked for. */
async function holdTwice(...args: Parameters<typeof hold>): Promise<Held> {
  const [first, second] = [await hold(...args), await hold(...args)];
  return first.resident < second.resident ? first : second;
}

async function hold(stage: ArchitectureStage, { restSeconds }: ArchitectureMemoryOptions): Promise<Held> {
  try {
    const mark = await stage.cluster.audit.mark();
    await using berth = await stage.startBerth("Affinity");
    await delay(Math.min(restSeconds, MOST_REST) * 1000);
    berth.ended.throwIfAborted();
    const { resident } = await berth.memory();
    const exposed = await (await fetch(`${berth.metricsUrl}/metrics`)).text();
    const filter = { userAgent: berth.userAgent, resource: "pods" };
    const requests = await stage.cluster.audit.entriesSince(mark, filter);
    const asked = requests.map(({ verb, requestUri }) => {
      const { pathname, searchParams } = new URL(requestUri, stage.cluster.url);
      return `${verb} ${pathname} ${searchParams.get("fieldSelector") ?? ""}`;
    });
    return { resident, pods: podsIn(exposed), asked };
  } finally {
    await stage.askNobody();
  }
}

/** Of the metric that counts the objects in caches, the samples of pods. */
function podsIn(exposed: string): number {
  const samples = exposed.matchAll(/^berth_informer_objects\{[^}]*resource="pods"[^}]*\} (\d+)$/gm);
  return [...samples].reduce((sum, [, count]) => sum + Number(count), 0);
}

function mb({ resident }: Held): string {
  return `${(resident / MB).toFixed(0)} MB`;
}
