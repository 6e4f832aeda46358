import type { Namespace } from "@berth/kube";
import { describe, expect, it } from "vitest";
import type { Cell } from "../../api/cell.ts";
import { aCondition, aDeployment, anInstance, withCondition } from "../../deployment/testing/fixtures.ts";
import { aPlacement, onHub } from "../../hub/testing/fixtures.ts";
import { type ForgetView, forgettingOf, formatForgetting } from "./forget.ts";

const NOW_MS = Date.parse("2026-01-01T00:05:00Z");
const cell: Cell = {
  metadata: { name: "a" },
  spec: { city: "DFW", uid: "uid-a", secretRef: { name: "s" } },
  status: { conditions: [aCondition("Reachable", "False", "Silent")], since: "2026-01-01T00:00:00Z" },
};
const namespace: Namespace = {
  metadata: {
    name: "ns-U",
    labels: {
      "meta.datumapis.com/upstream-cluster-name": "cluster-acme_web",
      "meta.datumapis.com/upstream-namespace": "default",
    },
  },
};

const copy = (ordinal: number, reason: string, cellUid = "uid-a") => {
  const instance = withCondition(
    anInstance(aDeployment(), ordinal),
    aCondition("QuotaGranted", reason === "QuotaExceeded" ? "False" : "True", reason),
  );
  const metadata = {
    ...instance.metadata,
    namespace: "ns-U",
    annotations: { "berth.dev/cell-uid": cellUid },
  };
  return { ...instance, metadata };
};

const view: ForgetView = { cell, deployments: [], copies: [], namespaces: [namespace] };

describe("to forget a Cell", () => {
  it("means what is placed there, and what is on its way there", () => {
    const next = { cell: "a", uid: "uid-a", epoch: 2, start: 1000 };
    const moving = onHub({ name: "x-us-dfw", placed: aPlacement("b", { next, last: 2 }) });
    const elsewhere = onHub({ name: "y-us-dfw", placed: aPlacement("b") });
    const found = forgettingOf({ ...view, deployments: [moving, onHub(), elsewhere] });
    expect(found.deployments).toEqual(["web/default/w-us-dfw", "web/default/x-us-dfw"]);
  });

  it("leaves the claims that are granted to its Instances", () => {
    const copies = [
      copy(1, "QuotaAvailable"),
      copy(0, "QuotaAvailable"),
      copy(2, "QuotaDisabled"),
      copy(3, "QuotaExceeded"),
      copy(4, "QuotaAvailable", "uid-b"),
    ];
    const { claims } = forgettingOf({ ...view, copies });
    expect(claims).toEqual(["web/default/instance-w-us-dfw-0", "web/default/instance-w-us-dfw-1"]);
  });

  it("is told before it is done", () => {
    const deployments = [onHub()];
    const copies = Array.from({ length: 22 }, (_, at) => copy(at, "QuotaAvailable"));
    const text = formatForgetting(forgettingOf({ ...view, deployments, copies }), NOW_MS, "would");
    expect(text.replace(/( {4}web\/default\/instance.*\n)+/, "    …\n")).toMatchInlineSnapshot(`
      "Cell a in DFW was heard last 5m ago.
        1 deployment would go to another cell of DFW:
          web/default/w-us-dfw
        22 ResourceClaims would stay granted, until you delete them:
          …
          … and 2 more
      "
    `);
    const heard: Cell = { ...cell, status: { conditions: [aCondition("Reachable", "True", "Heard")] } };
    expect(formatForgetting(forgettingOf({ ...view, cell: heard }), NOW_MS, "will")).toMatchInlineSnapshot(`
      "Cell a in DFW is heard now: stop it first. What runs there goes on beside what replaces it.
        nothing is placed there
      "
    `);
  });
});
