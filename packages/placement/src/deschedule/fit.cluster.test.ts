/** The real scheduler as the judge: it binds the pods that `findFit` says fit, and no others. */

import { type KubeClient, namespaces, nodes, type Pod, pods, runtimeClasses } from "@berth/kube";
import { eventually, sharedTestCluster } from "@berth/testcluster";
import * as fc from "fast-check";
import { beforeAll, expect, it } from "vitest";
import { seededRun } from "../../../runtime/src/testing/property.ts";
import { findFit } from "./fit.ts";
import { slimPod } from "./pod-fields.ts";
import { fitNodes, fitPods } from "./testing/fit-arbitraries.ts";
import { groundOf, NAMESPACES } from "./testing/ground.ts";

const run = seededRun(80, process.env);
/** Of the pods that were bound, each of this number is deleted; without a kubelet it stays, being deleted. */
const DELETED = 4;

let client: KubeClient;

beforeAll(async () => {
  ({ client } = await sharedTestCluster({ with: ["scheduler"] }));
  const { default: _, ...more } = NAMESPACES;
  for (const [name, labels] of Object.entries(more))
    await client.create(namespaces, { metadata: { name, labels } });
  await client.create(runtimeClasses, {
    metadata: { name: "heavy" },
    handler: "heavy",
    overhead: { podFixed: { cpu: "300m" } },
  });
  for (const node of fitNodes) {
    const { metadata } = await client.create(nodes, node);
    // Admission has added the taint that new nodes are not ready.
    const taints = node.spec?.taints ?? null;
    await client.patch(nodes, { name: metadata?.name ?? "" }, { type: "merge", body: { spec: { taints } } });
  }
});

/** The node to which the scheduler binds the pod; undefined when it finds none. */
function scheduled(name: string, namespace: string): Promise<string | undefined> {
  return eventually(
    async () => {
      const { spec, status } = await client.get(pods, { namespace, name });
      const refused = status?.conditions?.some(
        ({ type, status: is }) => type === "PodScheduled" && is === "False",
      );
      if (spec?.nodeName === undefined && refused !== true)
        throw new Error(`the scheduler has not seen ${name}`);
      return spec?.nodeName;
    },
    { everyMs: 5 },
  );
}

it(`the scheduler agrees about every pod (${run.name})`, run.options, async () => {
  const { seed, numRuns } = run.parameters;
  const wrong: unknown[] = [];
  let bound = 0;
  for (const [i, pod] of fc.sample(fitPods, { seed, numRuns }).entries()) {
    const [name, namespace] = [`fit-${i}`, pod.metadata?.namespace ?? ""];
    const others = (await client.list(pods)).items.map((it): Pod => slimPod(it));
    const stored = await client.create(pods, { ...pod, metadata: { ...pod.metadata, name } });
    const answer = findFit(slimPod(stored), "True", groundOf((await client.list(nodes)).items, others));
    const node = await scheduled(name, namespace);
    if ("node" in answer !== (node !== undefined)) wrong.push({ pod, answer, node });
    if (node !== undefined) bound += 1;
    // A pod that waits would be bound later, when other pods change.
    if (node === undefined || bound % DELETED === 0) await client.delete(pods, { namespace, name });
  }
  expect(wrong).toEqual([]);
  expect(bound).toBeGreaterThan(numRuns / 10);
  expect(bound).toBeLessThan((numRuns * 4) / 5);
});
