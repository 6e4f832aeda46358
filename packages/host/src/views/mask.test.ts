import type { KubeObject } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { keepFields } from "./mask.ts";

const IDENTITY = { name: "a", namespace: "n", uid: "u", resourceVersion: "7" };
const POD = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { ...IDENTITY, labels: { app: "x", ["__proto__"]: "y" }, managedFields: [{ manager: "m" }] },
  spec: { nodeName: "node-1", containers: [{ name: "c", image: "i", ports: [{ containerPort: 1 }] }] },
  status: { conditions: [{ type: "Ready", status: "True", message: "long" }, { type: "Odd" }], phase: null },
};
const kept = (object: object, ...masks: readonly (readonly string[])[]): object =>
  keepFields<KubeObject>(...masks)(JSON.parse(JSON.stringify(object)) as KubeObject);

describe("of an object is kept", () => {
  it.each<[string, readonly (readonly string[])[], object]>([
    ["what names it, always", [[]], {}],
    [
      "a field with all that is below it",
      [["spec.containers"]],
      { spec: { containers: POD.spec.containers } },
    ],
    [
      "of each element of a list what is asked for",
      [["status.conditions[].type", "status.conditions[].status"]],
      { status: { conditions: [{ type: "Ready", status: "True" }, { type: "Odd" }] } },
    ],
    [
      "what any of several masks asks for",
      [["spec.containers[].name"], ["spec.nodeName", "spec.containers[].image"]],
      { spec: { nodeName: "node-1", containers: [{ name: "c", image: "i" }] } },
    ],
    [
      "the whole, where one mask asks for it and others for parts",
      [["spec.containers[].name"], ["spec.containers"], ["spec.containers[].image"]],
      { spec: { containers: POD.spec.containers } },
    ],
    [
      "nothing of what it does not have",
      [["spec.tolerations", "status.nodeInfo.bootID", "data"]],
      { spec: {}, status: {} },
    ],
    [
      "a value that is not what the path expects, as it is",
      [["status.phase.x", "kind.y"]],
      { status: { phase: null } },
    ],
  ])("%s", (_, masks, expected) => {
    expect(kept(POD, ...masks)).toEqual({ apiVersion: "v1", kind: "Pod", metadata: IDENTITY, ...expected });
  });

  it("every label, whatever its name, and texts that were met before as they are", () => {
    const keep = keepFields<KubeObject>(["metadata.labels"]);
    for (let index = 0; index < 5000; index++) {
      const labels = { zone: "a", name: `node-${index}`, ["__proto__"]: "y", note: "é\u{1F600}" };
      const { metadata } = keep(
        JSON.parse(JSON.stringify({ metadata: { name: "a", labels } })) as KubeObject,
      );
      expect(JSON.stringify(metadata)).toBe(JSON.stringify({ name: "a", labels }));
    }
  });
});

it.each(["", "metadata.", ".spec", "spec..x", "[]"])("the path %j is refused", (path) => {
  expect(() => keepFields(["metadata.name", path])).toThrow(TypeError);
});
