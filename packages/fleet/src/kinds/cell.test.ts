import { expect, it } from "vitest";
import type { Cell } from "../api/cell.ts";
import { aCondition } from "../deployment/testing/fixtures.ts";
import { cellKind, withdrawalKind } from "./kinds.ts";

const cell = { city: "DFW", secretRef: { name: "dfw-01" }, uid: "u" };
const withdrawal = { cell: "dfw-01", cellUid: "u", namespace: "ns-U", name: "w-us-dfw", sourceUid: "s" };

it("a Cell has the namespace kube-system as its identity, unless it says another", () => {
  expect(cellKind.spec.parse(cell)).toEqual({ ...cell, identityNamespace: "kube-system" });
  expect(cellKind.spec.parse({ ...cell, identityNamespace: "x" })).toMatchObject({ identityNamespace: "x" });
});

it.each([{ city: "D W" }, { city: "" }, { uid: undefined }, { server: "https://x" }])(
  "a Cell with %j is refused",
  (change) => expect(cellKind.spec.safeParse({ ...cell, ...change }).success).toBe(false),
);

it("a Withdrawal may know epoch and start, or not", () => {
  for (const spec of [withdrawal, { ...withdrawal, epoch: 1, start: 0 }])
    expect(withdrawalKind.spec.parse(spec)).toEqual(spec);
  expect(withdrawalKind.spec.safeParse({ ...withdrawal, epoch: 0 }).success).toBe(false);
});

it.each<[string, Cell["spec"] & object, Cell["status"] & object, string[]]>([
  ["is well", cell, {}, []],
  ["is away", cell, { since: "2026-01-01T00:00:00Z" }, ["is not heard since 2026-01-01T00:00:00Z"]],
  ["was given up", { ...cell, forgotten: true }, {}, ["is forgotten: its deployments go elsewhere"]],
  [
    "has what nothing stands for",
    cell,
    { orphans: { count: 2, names: [] } },
    ["has 2 orphans: `berth cell list --orphans`"],
  ],
  [
    "has a credential that ends",
    cell,
    { conditions: [aCondition("CredentialExpiring", "True", "CredentialExpires", "its credential ends")] },
    ["its credential ends"],
  ],
])("`berth status` says of a Cell that it %s", (_, spec, status, expected) => {
  expect(cellKind.shown?.remarks?.({ metadata: {}, spec, status } as Cell).map(({ text }) => text)).toEqual(
    expected,
  );
});
