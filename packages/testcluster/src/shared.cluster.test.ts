import { describe, expect, it } from "vitest";
import { sharedTestCluster } from "./shared.ts";

describe("sharedTestCluster", () => {
  it("hands every caller with the same options the same cluster", async () => {
    const [one, two] = await Promise.all([sharedTestCluster(), sharedTestCluster({ with: [] })]);
    expect(two).toBe(one);
    expect(await one.client.read("/readyz")).toBe("ok");
  });

  it("tries again after a failed start", async () => {
    const options = { flags: { "kube-apiserver": ["--no-such-flag"] } };
    const first = sharedTestCluster(options);
    await expect(first).rejects.toThrow("no-such-flag");
    const second = sharedTestCluster(options);
    expect(second).not.toBe(first);
    await expect(second).rejects.toThrow("no-such-flag");
  });
});
