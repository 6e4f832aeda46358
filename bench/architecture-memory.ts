/** What pods that have their node cost Berth: it must not even receive them. */
import { namespaces } from "@berth/kube";
import { aPod } from "@berth/testcluster";
import type { ArchitectureStage, ReadyProcess } from "./architecture-stage.ts";
import { post } from "./gate-stage.ts";
import { type Held, holdTwice, MB, NOISE_MB, residentText } from "./held-memory.ts";
import type { Figure } from "./report.ts";

export interface ArchitectureMemoryOptions {
  /** Pods that have their node. */
  readonly pods: number;
  /** Seconds. */
  readonly restSeconds: number;
  readonly onProgress: (text: string) => void;
}

const NAMESPACE = "bench-foreign";
const NODES = 300;

export async function benchArchitectureMemory(
  stage: ArchitectureStage,
  options: ArchitectureMemoryOptions,
): Promise<readonly Figure[]> {
  const { pods: count, onProgress } = options;
  const alone = await hold(stage, options);
  onProgress(`creating ${count} pods that have their node`);
  await addForeignPods(stage, count);
  const among = await hold(stage, options);
  const what = `${count} pods that have their node`;
  const other = among.asked.filter((request) => !request.includes("spec.nodeName="));
  return [
    {
      id: "architecture-memory-foreign",
      what: `${what}: resident memory that these add`,
      value: (among.resident - alone.resident) / MB,
      unit: "MB",
      budget: NOISE_MB,
      detail: `${residentText(alone)} without them, ${residentText(among)} with them; the lesser of two runs each; budget: what such runs differ by`,
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

async function hold(stage: ArchitectureStage, { restSeconds }: ArchitectureMemoryOptions): Promise<Held> {
  const start = async (): Promise<ReadyProcess> => {
    await stage.askNobody();
    return stage.startBerth("Affinity");
  };
  try {
    return await holdTwice({ cluster: stage.cluster, start, restSeconds });
  } finally {
    await stage.askNobody();
  }
}
