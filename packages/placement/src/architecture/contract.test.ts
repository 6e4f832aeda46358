import type { Node, Taint } from "@berth/kube";
import * as fc from "fast-check";
import { capabilityContract } from "../node/testing/capability-contract.ts";
import { makeNode } from "../node/testing/world.ts";
import { architectureFields, bindArchitecture } from "./capability.ts";
import { policiesOf } from "./testing/policies.ts";

const arm64: Taint = { key: "supported-arch", value: "arm64", effect: "NoSchedule" };
const others: readonly Taint[] = [
  { key: "dedicated", value: "db", effect: "NoSchedule" },
  { key: "node.kubernetes.io/not-ready", effect: "NoExecute", timeAdded: "2026-01-01T00:00:00Z" },
  { key: "kubernetes.io/arch", value: "amd64", effect: "NoSchedule" },
  { key: "example.com/slow", value: "x", effect: "NoSchedule" },
];
const someTaints = fc
  .tuple(
    fc.subarray([...others]),
    fc.constantFrom<readonly Taint[]>([], [arm64], [{ ...arm64, value: "amd64" }]),
  )
  .map((lists): readonly Taint[] => lists.flat());

const policies = policiesOf({
  p: {},
  second: { priority: 1 },
  gke: { taint: { key: "kubernetes.io/arch" } },
  pool: { taint: { key: "example.com/pool", nodeSelector: { matchLabels: { pool: "a" } } } },
  slow: { mode: "Both", taint: { key: "example.com/slow" } },
  narrow: { mode: "Affinity", taint: { key: "example.com/never" } },
});
const withdrawn = policiesOf({});

capabilityContract({
  enabled: bindArchitecture({ policies: () => policies, tainting: (rule) => rule !== "cluster/slow" }),
  disabled: bindArchitecture({ policies: () => withdrawn, tainting: () => true }),
  fields: architectureFields,
  nodes: fc
    .record({
      labels: fc.constantFrom({ pool: "a" }, { pool: "b" }),
      taints: someTaints,
      architecture: fc.constantFrom("arm64", "riscv64", ""),
    })
    .map(({ architecture, ...init }): Node => {
      const nodeInfo = { architecture } as NonNullable<NonNullable<Node["status"]>["nodeInfo"]>;
      return Object.assign(makeNode(init), { status: { nodeInfo } });
    }),
  edits: fc.oneof(
    fc.constantFrom("a", "b").map((pool) => ({ labels: { pool } })),
    someTaints.map((taints) => ({ spec: { taints } })),
  ),
});
