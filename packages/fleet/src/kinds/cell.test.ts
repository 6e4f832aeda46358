import { expect, it } from "vitest";
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
