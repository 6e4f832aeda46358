/** How often a fresh node is written in its life before pods may run there, with labels and a gate. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { nodes } from "@berth/kube";
import { originalGate } from "@berth/placement";
import { aNode } from "@berth/testcluster";
import { DEVICE, LABEL } from "./bench-cluster.ts";
import { mostPatches } from "./gate-burst.ts";
import { type GateStage, gateDocument, says, startReady, TAINT, WITHOUT_ADMISSION } from "./gate-stage.ts";
import { type NodeSight, watchNodes } from "./node-sight.ts";
import type { MeasuredProcess } from "./process.ts";
import { type Figure, median } from "./report.ts";
import { COALESCED_MS } from "./steady.ts";

/** Nodes, one after the other. */
const NODES = 50;
/** Between two facts of a node. Milliseconds. */
const FACT_EVERY_MS = 20;
/** How long further writes are waited for in the end. Milliseconds. */
const QUIET_MS = 2000;
const TIMEOUT_MS = 60_000;

/** A node from its creation to its release. Milliseconds. */
interface Life {
  readonly name: string;
  /** From its creation to the last of its facts. */
  readonly facts: number;
  /** From the last fact to its labels, and from the ready pod to its release. */
  readonly labelled: number;
  readonly released: number;
}

export async function benchFresh(
  stage: GateStage,
  onProgress: (text: string) => void,
): Promise<readonly Figure[]> {
  onProgress(`${NODES} fresh nodes, one after the other`);
  const { cluster } = stage;
  const folder = await mkdtemp(join(tmpdir(), "berth-bench-rules-"));
  await using owned = new AsyncDisposableStack();
  owned.defer(() => rm(folder, { recursive: true, force: true }));
  const [namespace = "", label = ""] = LABEL.split("/");
  await mkdir(join(folder, namespace));
  await writeFile(join(folder, namespace, label), `${DEVICE}\n`);
  const gate = gateDocument({ signals: { pods: [{}], labelsSettled: true } });
  const program = await stage.berth([gate, WITHOUT_ADMISSION], ["--label-dir", folder]);
  const mark = await cluster.audit.mark();
  const berth = owned.use(await startReady(program));
  const sight = owned.use(await watchNodes(cluster.client));
  const lives: Life[] = [];
  for (let index = 0; index < NODES; index++)
    lives.push(await live(`fresh-${index}`, { stage, sight, berth }));
  await delay(QUIET_MS);
  const entries = await cluster.audit.entriesSince(mark, {
    userAgent: berth.userAgent,
    verb: "patch",
    resource: "nodes",
  });
  await stage.clear();
  const refused = entries.filter(({ code }) => code === 409).length;
  // Facts that come later than that are a change of their own.
  const late = new Set(lives.filter(({ facts }) => facts > COALESCED_MS).map(({ name }) => name));
  const counted = entries.filter(({ name }) => !late.has(name));
  const middle = (of: (life: Life) => number): string => `${median(lives.map(of)).toFixed(0)} ms`;
  return [
    {
      id: "gate-fresh-patches",
      what: "fresh node with labels and gate: patches until pods may run there, at most",
      value: late.size < NODES ? mostPatches(counted) : Number.NaN,
      unit: "requests",
      budget: 2,
      detail:
        `mean ${(counted.filter(({ code }) => code === 200).length / (NODES - late.size)).toFixed(2)} of ${NODES - late.size}, ${refused} refused with 409; facts settle within ${middle(({ facts }) => facts)}, ` +
        `labels ${middle(({ labelled }) => labelled)} later, release ${middle(({ released }) => released)} after the pod is ready` +
        (late.size > 0 ? `; ${late.size} left out, whose facts took longer than ${COALESCED_MS} ms` : ""),
    },
  ];
}

interface Around {
  readonly stage: GateStage;
  readonly sight: NodeSight;
  readonly berth: MeasuredProcess;
}

/** It registers with the taint, says what it has, and once it is labelled its agent becomes ready. */
async function live(name: string, { stage, sight, berth }: Around): Promise<Life> {
  const { client } = stage.cluster;
  const signal = AbortSignal.any([berth.ended, AbortSignal.timeout(TIMEOUT_MS)]);
  const isLabelled = sight.until(name, ({ metadata }) => metadata?.labels?.[LABEL] !== undefined, signal);
  const isFree = sight.until(
    name,
    ({ spec }) => spec?.taints?.some(({ key }) => key === originalGate.taint.key) !== true,
    signal,
  );
  // Awaited below; whichever fails first must not leave the other without somebody who hears it.
  isFree.catch(() => undefined);
  await client.create(nodes, aNode(name).realistic().notReady().tainted(TAINT).build());
  const createdAt = performance.now();
  await delay(FACT_EVERY_MS);
  await patch({ metadata: { labels: { [DEVICE]: "true" } } });
  await delay(FACT_EVERY_MS);
  const { conditions } = aNode(name).build().status ?? {};
  await patch({ status: { conditions } }, "status");
  const settledAt = performance.now();
  const labelledAt = await isLabelled;
  await stage.addAgents([name]);
  const { answeredAt } = await stage.raw.send(says(name, true));
  const releasedAt = await isFree;
  return {
    name,
    facts: settledAt - createdAt,
    labelled: labelledAt - settledAt,
    released: releasedAt - answeredAt,
  };

  async function patch(body: object, subresource?: "status"): Promise<void> {
    await client.patch(nodes, { name }, { type: "merge", body }, subresource && { subresource });
  }
}
