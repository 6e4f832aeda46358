import type { Node, Pod } from "@berth/kube";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { seededRun } from "../../../runtime/src/testing/property.ts";
import { findFit, type Ground } from "./fit.ts";
import { EVERYWHERE, forbiddenNamespace } from "./fit-topology.ts";
import { slimPod } from "./pod-fields.ts";
import { fitNodes, fitPods } from "./testing/fit-arbitraries.ts";
import { groundOf } from "./testing/ground.ts";

const run = seededRun(300, process.env);

const names = fitNodes.map(({ metadata }) => metadata?.name ?? "");

/** Pods on nodes of the cluster, whether or not they fit there, and one pod that asks for a node. */
const clusters = fc
  .array(fc.tuple(fitPods, fc.constantFrom(...names)), { minLength: 1, maxLength: 15 })
  .map((all): readonly [Pod, ...Pod[]] => {
    const pods = all.map(([pod, nodeName], i) => ({
      ...pod,
      metadata: { ...pod.metadata, uid: `${i}` },
      spec: { containers: [], ...pod.spec, nodeName },
    }));
    return pods as unknown as readonly [Pod, ...Pod[]];
  });

const deleted = (node: Node): Node => ({
  ...node,
  metadata: { ...node.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" },
});

/** The cluster with only one node that takes pods. Domains stay as they are. */
const onlyOn = (name: string, ground: Ground): Ground => ({
  ...ground,
  nodes: fitNodes.map((node) => (node.metadata?.name === name ? node : deleted(node))),
});

it(
  `finds a node exactly when there is one that takes the pod as the only node (${run.name})`,
  run.options,
  () => {
    const property = fc.property(
      clusters,
      fc.constantFrom("True" as const, "PendingOk" as const),
      ([pod, ...pods], how) => {
        const ground = groundOf(fitNodes, [pod, ...pods]);
        const taking = names.filter((name) => "node" in findFit(pod, how, onlyOn(name, ground)));
        const found = findFit(pod, how, ground);
        const forbidding = (namespace: string): readonly Pod[] =>
          pods.filter((it) => [EVERYWHERE, namespace].includes(forbiddenNamespace(it) ?? ""));
        expect(findFit(pod, how, { ...ground, forbidding })).toEqual(found);
        expect(taking).not.toContain(pod.spec?.nodeName);
        const isRight = "node" in found ? taking.includes(found.node) : taking.length === 0;
        expect({ isRight, found, taking }).toMatchObject({ isRight: true });
      },
    );
    fc.assert(property, run.parameters);
  },
);

it(`decides alike on whole pods and on what an informer keeps of them (${run.name})`, run.options, () => {
  const property = fc.property(clusters, (pods) => {
    const slim = pods.map(slimPod);
    expect(findFit(slim[0] as Pod, "True", groundOf(fitNodes, slim))).toEqual(
      findFit(pods[0], "True", groundOf(fitNodes, pods)),
    );
  });
  fc.assert(property, run.parameters);
});
