import { describe, expect, it } from "vitest";
import { aNode } from "./node-builder.ts";
import { aPod } from "./pod-builder.ts";

describe("aNode", () => {
  it("leaves the builder it came from as it was", () => {
    const plain = aNode("n1");
    const before = plain.build();
    plain.arm64().notReady().labelled({ a: "1" }).annotated({ b: "2" });
    plain.tainted("k=v:NoSchedule").fake().realistic();
    expect(plain.build()).toEqual(before);
  });

  it("keeps the two places that name the architecture equal", () => {
    const node = aNode("n1").arm64().architecture("s390x").build();
    expect(node.metadata?.labels?.["kubernetes.io/arch"]).toBe("s390x");
    expect(node.status?.nodeInfo?.architecture).toBe("s390x");
  });

  it("has each condition once", () => {
    const { status } = aNode("n1").notReady().unreachable().build();
    const ready = status?.conditions?.filter(({ type }) => type === "Ready");
    expect(ready?.map(({ status }) => status)).toEqual(["Unknown"]);
  });

  it("reads taints as kubectl writes them, and refuses what is none", () => {
    const { spec } = aNode("n1")
      .tainted("a=b:NoSchedule", "c:NoExecute", { key: "d", effect: "NoSchedule" })
      .build();
    expect(spec?.taints).toEqual([
      { key: "a", value: "b", effect: "NoSchedule" },
      { key: "c", effect: "NoExecute" },
      { key: "d", effect: "NoSchedule" },
    ]);
    expect(() => aNode("n1").tainted("a=b")).toThrow(TypeError);
  });

  it("leaves readiness to kwok when fake, in whatever order the steps come", () => {
    expect(aNode("n1").fake().build().status?.conditions).toEqual([]);
    expect(aNode("n1").realistic().fake().build().status?.conditions).toEqual([]);
    expect(aNode("n1").fake().realistic().build().status?.conditions).toEqual([]);
  });

  it("is about 9 KB when realistic, and the same each time", () => {
    const size = (name: string): number => JSON.stringify(aNode(name).realistic().build()).length;
    expect(size("node-00001")).toBeGreaterThan(8_500);
    expect(size("node-00001")).toBeLessThan(9_500);
    expect(aNode("n1").realistic().build()).toEqual(aNode("n1").realistic().build());
    expect(aNode("n1").realistic().build()).not.toEqual(aNode("n2").realistic().build());
  });
});

describe("aPod", () => {
  it("leaves the builder it came from as it was", () => {
    const plain = aPod("p1");
    const before = plain.build();
    plain.in("x").on("n1").image("i").container("c", "d");
    plain.tolerating({ operator: "Exists" }).ready().realistic();
    expect(plain.build()).toEqual(before);
  });

  it("keeps the first container when another is added and the image changes", () => {
    const pod = aPod("p1").container("side", "s:1").image("main:2").requesting({ cpu: "1" }).build();
    expect(pod.spec?.containers.map(({ name, image }) => [name, image])).toEqual([
      ["main", "main:2"],
      ["side", "s:1"],
    ]);
  });

  it("names its DaemonSet as the controlling owner", () => {
    const [owner] = aPod("p1").ofDaemonSet("agent", "u1").build().metadata?.ownerReferences ?? [];
    const kind = { apiVersion: "apps/v1", kind: "DaemonSet" };
    expect(owner).toMatchObject({ ...kind, name: "agent", uid: "u1", controller: true });
  });

  it("is about 11 KB when realistic", () => {
    const size = JSON.stringify(aPod("pod-000001").on("node-00001").realistic().build()).length;
    expect(size).toBeGreaterThan(10_500);
    expect(size).toBeLessThan(11_500);
  });
});
