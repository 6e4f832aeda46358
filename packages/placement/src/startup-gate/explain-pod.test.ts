import { aNode, aPod } from "@berth/testcluster";
import { expect, it } from "vitest";
import { heldNodesFor } from "./explain-pod.ts";
import { gatesOf } from "./testing/look-once.ts";

const taint = { key: "example.com/wait", value: "wait", effect: "NoSchedule" } as const;
const { gates } = gatesOf({ network: { taint: { key: taint.key }, signals: { labelsSettled: true } } });
const fresh = aNode("fresh").labelled({ pool: "gpu" }).tainted(taint).build();
const pod = aPod("web").selecting({ pool: "gpu" });

it.each<[string, Parameters<typeof heldNodesFor>[0], typeof fresh, boolean]>([
  ["waits for the node that only a gate keeps from it", pod.build(), fresh, true],
  ["has a node", pod.on("other").build(), fresh, false],
  ["tolerates the gate", pod.tolerating({ key: taint.key, operator: "Exists" }).build(), fresh, false],
  ["is for other nodes", aPod("web").selecting({ pool: "cpu" }).build(), fresh, false],
  [
    "does not tolerate another taint of it",
    pod.build(),
    aNode("fresh")
      .labelled({ pool: "gpu" })
      .tainted(taint, { ...taint, key: "example.com/own" })
      .build(),
    false,
  ],
  ["needs no held node", pod.build(), aNode("fresh").labelled({ pool: "gpu" }).build(), false],
])("a pod that %s", (_, it, node, waits) => {
  expect(heldNodesFor(it, [node], gates)).toEqual(
    waits ? [{ node: "fresh", gates: ["cluster/network"] }] : [],
  );
});
