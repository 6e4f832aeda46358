/** Pods of several pools land on one node at once, and end at once: how often is it written? */
import { setTimeout as delay } from "node:timers/promises";
import { create, type FootprintStage, remove, turnOf, waitForMarks } from "./footprint-stage.ts";
import type { RawAnswer } from "./raw-requests.ts";
import { type Figure, quantile } from "./report.ts";

const PODS = 20;
const POOLS = 5;
const NODES = 10;
/** What comes within it becomes one patch: what took the server longer is no burst. Milliseconds. */
const TOGETHER_MS = 80;
/** A second patch comes within it. Milliseconds. */
const LATE_MS = 500;

interface Burst {
  /** From the first answer to the last. Milliseconds. */
  readonly took: number;
  readonly patches: number;
}

export async function benchFootprintBurst(
  stage: FootprintStage,
  onProgress: (text: string) => void,
): Promise<readonly Figure[]> {
  const pools = await Promise.all(
    Array.from({ length: POOLS }, (_, index) => stage.addPool(`burst-${index}`)),
  );
  await using berth = await stage.startBerth();
  onProgress(`bursts of ${PODS} pods on ${NODES} nodes, one after the other`);
  const bursts: Burst[] = [];
  const measure = async (node: string, isWanted: boolean, send: () => Promise<readonly RawAnswer[]>) => {
    const mark = await stage.cluster.audit.mark();
    const answers = (await send()).map(({ answeredAt }) => answeredAt);
    await waitForMarks(stage, [node], isWanted ? pools : [], berth);
    await delay(LATE_MS);
    const filter = { verb: "patch", resource: "nodes", userAgent: berth.userAgent };
    const patches = (await stage.cluster.audit.entriesSince(mark, filter)).filter(
      ({ name }) => name === node,
    );
    bursts.push({ took: Math.max(...answers) - Math.min(...answers), patches: patches.length });
  };
  for (const node of stage.names.slice(0, NODES)) {
    const name = (index: number): string => `${node}-burst-${index}`;
    const indexes = Array.from({ length: PODS }, (_, index) => index);
    await measure(node, true, () =>
      stage.raw.sendAll(indexes.map((index) => create(name(index), turnOf(pools, index), node))),
    );
    await measure(node, false, () => stage.raw.sendAll(indexes.map((index) => remove(name(index)))));
  }
  const counted = bursts.filter(({ took }) => took <= TOGETHER_MS);
  const longest = quantile(
    counted.map(({ took }) => took),
    1,
  );
  return [
    {
      id: "footprint-burst-patches",
      what: `${PODS} pods of ${POOLS} pools at once on a node: patches of it, at most`,
      // Of none it is not known.
      value: quantile(
        counted.map(({ patches }) => patches),
        1,
      ),
      unit: "requests",
      budget: 1,
      detail:
        `${counted.length} bursts of pods that come or go, the longest ${longest.toFixed(0)} ms; ${bursts.length - counted.length} left out, ` +
        `for which the server took more than ${TOGETHER_MS} ms (at most ${Math.max(...bursts.map(({ patches }) => patches))} patches of all); ` +
        `pull request 134: up to ${PODS}`,
      samples: counted.map(({ patches }) => patches),
    },
  ];
}
