import { expect, it } from "vitest";
import { architectureRuntimeClasses } from "./runtime-class.ts";

it("makes a RuntimeClass for each architecture, once, which tolerates what it is told", () => {
  const [arm64, ...others] = architectureRuntimeClasses(["arm64", "amd64", "arm64"], {
    handler: "runc",
    taintKeys: ["supported-arch", "a"],
  }).toReversed();
  expect(arm64).toEqual({
    apiVersion: "node.k8s.io/v1",
    kind: "RuntimeClass",
    metadata: { name: "berth-arm64", labels: { "app.kubernetes.io/name": "berth" } },
    handler: "runc",
    scheduling: {
      nodeSelector: { "kubernetes.io/arch": "arm64" },
      tolerations: [
        { key: "a", value: "arm64", effect: "NoSchedule" },
        { key: "supported-arch", value: "arm64", effect: "NoSchedule" },
      ],
    },
  });
  expect(others.map(({ metadata }) => metadata?.name)).toEqual(["berth-amd64"]);
});

it("leaves tolerations out without keys", () => {
  const [only] = architectureRuntimeClasses(["s390x"], { handler: "h" });
  expect(only?.scheduling).toEqual({ nodeSelector: { "kubernetes.io/arch": "s390x" } });
});
