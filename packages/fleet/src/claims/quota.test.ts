import type { Namespace } from "@berth/kube";
import { clusterName, createSilentLogger, systemClock } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { labels } from "../api/keys.ts";
import { fleetKind } from "../fleet/document.ts";
import { Claims } from "./claims.ts";
import { Quota } from "./quota.ts";

const cluster = clusterName("local");
const quotaSpec = { from: "Projects", kubeconfig: "quota" } as const;

/** Of a cell that no quota service has been asked from. */
function quotaOf(namespace: Namespace | undefined, hasClaims = true): Quota {
  const spec = fleetKind.spec.parse({ mode: "cell", cell: "dfw-01", quota: quotaSpec });
  const claims = new Claims({
    clientOf: () => {
      throw new Error("asked for a project that no namespace names");
    },
    isShared: false,
    cluster,
    source: spec.cell,
    clock: systemClock,
    log: createSilentLogger(),
    onChange: () => undefined,
  });
  return new Quota({
    spec,
    claims: hasClaims ? claims : undefined,
    cluster,
    namespaces: { get: () => namespace },
    clock: systemClock,
  });
}

describe("H24 a roll of Ready Instances is held", () => {
  it.each([
    ["has no labels", { metadata: { name: "ns-u" } }],
    ["was not read", undefined],
    ["names no project", { metadata: { name: "ns-u", labels: { [labels.upstreamCluster]: "web" } } }],
  ])("while its namespace %s, because no claim can be made there", (_what, namespace) => {
    expect(quotaOf(namespace).isDown("ns-u")).toBe(true);
  });

  it("never without a quota service", () => {
    expect(quotaOf(undefined, false).isDown("ns-u")).toBe(false);
  });
});
