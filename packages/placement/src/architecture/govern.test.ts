import { describe, expect, it } from "vitest";
import { governing, isOrdinary, overrideOf } from "./govern.ts";
import { policiesOf, policyInForce } from "./testing/policies.ts";

const { policies } = policiesOf({
  base: { mode: "Affinity", excludedNamespaces: ["legacy"] },
  first: { mode: "Affinity", priority: 5, namespaceSelector: { matchLabels: { team: "a" } } },
  gpu: { mode: "Affinity", priority: 9, podSelector: { matchLabels: { gpu: "yes" } } },
});

const who = (pod: Partial<Parameters<typeof governing>[1]>): string | undefined =>
  governing(
    { policies, ownNamespace: "berth-system" },
    { namespace: "default", namespaceLabels: {}, labels: {}, ...pod },
  )?.name;

describe("a pod is governed by", () => {
  it("the first policy that selects its namespace and itself", () => {
    expect(who({})).toBe("base");
    expect(who({ namespaceLabels: { team: "a" } })).toBe("first");
    expect(who({ namespaceLabels: { team: "a" }, labels: { gpu: "yes" } })).toBe("gpu");
    expect(who({ namespace: "kube-system" })).toBe("base");
  });

  it("nobody where its namespace is excluded, opted out, or Berth's own", () => {
    expect(who({ namespace: "legacy" })).toBeUndefined();
    expect(who({ namespace: "legacy", labels: { gpu: "yes" } })).toBe("gpu");
    expect(who({ namespaceLabels: { "berth.dev/architecture": "ignore" } })).toBeUndefined();
    expect(who({ namespaceLabels: { "berth.dev/architecture": "keep" } })).toBe("base");
    expect(who({ namespace: "berth-system", labels: { gpu: "yes" } })).toBeUndefined();
  });

  it("its policy in the namespaces of the system too, though its affinity stays", () => {
    const namespaces = ["kube-system", "kube-public", "kube-node-lease", "default"];
    const left = namespaces.filter((namespace) => !isOrdinary({ namespace, metadata: {} }));
    expect(left).toEqual(["kube-system", "kube-public", "kube-node-lease"]);
  });
});

describe("an override of an image", () => {
  const chosen = (patterns: readonly string[], name: string): string | undefined => {
    const images = patterns.map((image) => ({ image, architectures: ["amd64"] }));
    return overrideOf(policyInForce({ images }), name)?.image;
  };

  it.each([
    ["nginx", "docker.io/library/nginx:latest"],
    ["nginx:1", "docker.io/library/nginx:1"],
    ["nginx:*", "docker.io/library/nginx:1"],
    ["docker.io/nginx:1", "docker.io/library/nginx:1"],
    ["index.docker.io/library/nginx:1", "docker.io/library/nginx:1"],
    ["bitnami/redis:7", "docker.io/bitnami/redis:7"],
    ["bitnami/*", "docker.io/bitnami/redis:7"],
    ["ghcr.io/a/b:1", "ghcr.io/a/b:1"],
    ["ghcr.io/a/b", "ghcr.io/a/b:latest"],
    ["localhost:5000/a", "localhost:5000/a:latest"],
    ["a/b:1", "docker.io/a/b:1@sha256:abc"],
    ["a/b@sha256:abc", "docker.io/a/b@sha256:abc"],
    ["*", "ghcr.io/a/b:1"],
  ])("%s fits %s", (pattern, name) => {
    expect(chosen([pattern], name)).toBe(pattern);
  });

  it.each([
    ["nginx", "docker.io/library/nginx:1"],
    ["nginx:*", "ghcr.io/library/nginx:1"],
    ["ghcr.io/a/b", "ghcr.io/a/b:1"],
    ["ghcr.io/a/*", "docker.io/ghcr.io/a/b:1"],
    ["a/b@sha256:abc", "docker.io/a/b:1"],
    ["a/b*c", "docker.io/a/bxc:latest"],
  ])("%s does not fit %s", (pattern, name) => {
    expect(chosen([pattern], name)).toBeUndefined();
  });

  it("is the longest that fits, and the whole name before a beginning", () => {
    const name = "docker.io/library/nginx:1";
    expect(chosen(["*", "nginx:*", "docker.io/*"], name)).toBe("nginx:*");
    expect(chosen(["nginx:1*", "nginx:1"], name)).toBe("nginx:1");
    expect(chosen(["nginx:1", "nginx:1*"], name)).toBe("nginx:1");
    expect(chosen([], name)).toBeUndefined();
  });
});
