/** Pods that no footprint looks for: what they add to the memory of Berth, and whether it receives any. */
import { namespaces } from "@berth/kube";
import { aPod } from "@berth/testcluster";
import { FOOTPRINT, type FootprintStage, turnOf } from "./footprint-stage.ts";
import { post } from "./gate-stage.ts";
import { countText, type Held, holdTwice, MB, NOISE_MB, residentText } from "./held-memory.ts";
import type { Figure } from "./report.ts";

export interface FootprintMemoryOptions {
  /** Pods that no footprint looks for. */
  readonly pods: number;
  /** Seconds. */
  readonly restSeconds: number;
  /** The budgets are for this size. */
  readonly budgeted: boolean;
  readonly onProgress: (text: string) => void;
}

const NAMESPACE = "bench-foreign";
/** Of the memory of a Berth that has the nodes and nothing to do: what the footprint itself may take, 1 is nothing. */
const RATIO_BUDGET = 1.1;

/** What the foreign pods do not match: the label of pools, and having no node. */
const MISSES_THEM = [/ate\.dev\/worker-pool-uid/, /spec\.nodeName=(?:,|$)/];

export async function benchFootprintMemory(
  stage: FootprintStage,
  options: FootprintMemoryOptions,
): Promise<readonly Figure[]> {
  const { pods, budgeted, onProgress } = options;
  onProgress("memory without other pods");
  const alone = await hold(stage, [FOOTPRINT], options);
  onProgress(`creating ${pods} pods that no footprint looks for`);
  await addForeignPods(stage, pods);
  onProgress("memory among them, with and without a footprint");
  const among = await hold(stage, [FOOTPRINT], options);
  const without = await hold(stage, [], options);
  const what = `${stage.names.length} nodes, ${pods} other pods`;
  const whole = among.asked.filter((request) => !MISSES_THEM.some((selector) => selector.test(request)));
  return [
    {
      id: "footprint-memory-foreign",
      what: `${what}: resident memory that these add`,
      value: (among.resident - alone.resident) / MB,
      unit: "MB",
      ...(budgeted && { budget: NOISE_MB }),
      detail: `${residentText(alone)} without them, ${residentText(among)} with them; the lesser of two runs each; budget: what such runs differ by`,
    },
    {
      id: "footprint-memory-ratio",
      what: `${what}: resident memory, with a footprint / without`,
      value: among.resident / without.resident,
      unit: "x",
      ...(budgeted && { budget: RATIO_BUDGET }),
      detail: `${residentText(among)} and ${residentText(without)}; pull request 134 caches every pod of the cluster whole`,
    },
    {
      id: "footprint-memory-received",
      what: `${what}: of these in Berth's caches, and lists and watches that could bring them`,
      value: among.pods + whole.length,
      unit: "requests",
      budget: 0,
      detail: `asked: ${countText(among.asked)}; without a footprint: ${countText(without.asked)}`,
    },
  ];
}

function hold(
  stage: FootprintStage,
  documents: readonly object[],
  { restSeconds }: FootprintMemoryOptions,
): Promise<Held> {
  return holdTwice({
    cluster: stage.cluster,
    start: () => stage.startBerth(documents),
    restSeconds,
  });
}

async function addForeignPods({ cluster, raw, names }: FootprintStage, count: number): Promise<void> {
  const metadata = { name: NAMESPACE };
  await cluster.client.create(namespaces, { apiVersion: "v1", kind: "Namespace", metadata });
  await raw.sendAll(
    Array.from({ length: count }, (_, index) => {
      const pod = aPod(`foreign-${index}`).in(NAMESPACE).labelled({ app: "other" }).on(turnOf(names, index));
      return post(`/api/v1/namespaces/${NAMESPACE}/pods`, pod.build());
    }),
  );
}
