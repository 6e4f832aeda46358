import type { PodSpec } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { imageUses } from "./images.ts";

const one = (container: object, more: object = {}): PodSpec => ({
  containers: [{ name: "a", ...container }],
  ...more,
});

describe("the images of a pod", () => {
  it("A-B3 are those of containers, init containers, sidecars, ephemeral containers and image volumes", () => {
    const spec: PodSpec = {
      containers: [{ name: "app", image: "app:1" }, { name: "none" }],
      initContainers: [
        { name: "setup", image: "setup:1" },
        { name: "mesh", image: "mesh:1", restartPolicy: "Always" },
      ],
      ephemeralContainers: [{ name: "debug", image: "busybox" }],
      volumes: [
        { name: "model", image: { reference: "models/llm:2", pullPolicy: "Never" } },
        { name: "scratch", emptyDir: {} },
      ],
    };
    const uses = imageUses(spec, "team");
    expect(
      uses.map(({ where, isVolume, question }) => [where, question.image, question.pull, isVolume]),
    ).toEqual([
      ["container app", "app:1", "IfNotPresent", false],
      ["init container setup", "setup:1", "IfNotPresent", false],
      ["init container mesh", "mesh:1", "IfNotPresent", false],
      ["ephemeral container debug", "busybox", "Always", false],
      ["image volume model", "models/llm:2", "Never", true],
    ]);
  });

  it.each([
    ["nginx", "Always"],
    ["nginx:latest", "Always"],
    ["nginx:1", "IfNotPresent"],
    ["localhost:5000/nginx", "Always"],
    ["localhost:5000/nginx:1", "IfNotPresent"],
    ["nginx@sha256:abc", "IfNotPresent"],
    ["nginx:latest@sha256:abc", "Always"],
    ["nginx:1@sha256:abc", "IfNotPresent"],
  ])("%s is pulled %s where the pod does not say", (image, pull) => {
    expect(imageUses(one({ image }), "n")[0]?.question.pull).toBe(pull);
    expect(imageUses(one({ image, imagePullPolicy: "Never" }), "n")[0]?.question.pull).toBe("Never");
    expect(imageUses(one({ image, imagePullPolicy: "Sometimes" }), "n")[0]?.question.pull).toBe(pull);
  });

  it("are read with the rights of the pod", () => {
    const access = (more: object): unknown =>
      imageUses(one({ image: "a" }, more), "team")[0]?.question.access;
    expect(access({})).toEqual({ namespace: "team", serviceAccount: "default", secrets: [] });
    expect(
      access({ serviceAccountName: "sa", imagePullSecrets: [{ name: "s" }, {}, { name: "t" }] }),
    ).toEqual({
      namespace: "team",
      serviceAccount: "sa",
      secrets: ["s", "t"],
    });
    expect(access({ serviceAccount: "old" })).toMatchObject({ serviceAccount: "old" });
  });

  it("are found in whatever was sent, without an error", () => {
    const part = fc.oneof(
      fc.anything({ withNullPrototype: true }),
      fc.array(fc.record({ name: fc.anything(), image: fc.anything(), imagePullPolicy: fc.anything() })),
    );
    const spec = fc.record({
      containers: part,
      initContainers: part,
      ephemeralContainers: part,
      volumes: part,
      imagePullSecrets: part,
      serviceAccountName: part,
    });
    fc.assert(
      fc.property(spec, (it) => {
        for (const { question } of imageUses(it as unknown as PodSpec, "n"))
          expect(question.image).not.toBe("");
      }),
    );
  });
});
