import type { Node } from "@berth/kube";
import { expect, it } from "vitest";
import { diffOf } from "./diff.ts";
import { type PendingChange, PendingChanges } from "./pending.ts";

const labelled = (value: string): Node => ({ metadata: { labels: { key: value } } });
const aChange = (node: string, old: string, now: string, attempts = 0): PendingChange => ({
  node,
  resourceVersion: now,
  change: diffOf(labelled(old), labelled(now), () => true),
  attempts,
});
function drained(pending: PendingChanges): readonly string[] {
  const taken: string[] = [];
  for (let it = pending.take(); it !== undefined; it = pending.take())
    for (const { before, after } of it.change.values())
      taken.push(`${it.node} ${before}>${after} @${it.resourceVersion} ${it.attempts}`);
  return taken;
}

it("has one change of a node, and gives the oldest first", () => {
  const pending = new PendingChanges(2);
  pending.add(aChange("a", "1", "2"));
  pending.add(aChange("b", "1", "2"));
  pending.add(aChange("a", "2", "3"));
  expect(pending.size).toBe(2);
  expect(drained(pending)).toEqual(["a 1>3 @3 0", "b 1>2 @2 0"]);
});

it("forgets a change that was taken back before it was sent", () => {
  const pending = new PendingChanges(2);
  pending.add(aChange("a", "1", "2"));
  pending.add(aChange("a", "2", "1"));
  expect(pending.size).toBe(0);
});

it("keeps a change that was taken back while it was sent", () => {
  const pending = new PendingChanges(2);
  pending.add(aChange("a", "2", "1"));
  pending.putBack(aChange("a", "1", "2", 1));
  expect(drained(pending)).toEqual(["a 1>1 @1 1"]);
});

it("puts a change that failed behind the others", () => {
  const pending = new PendingChanges(2);
  pending.add(aChange("b", "1", "2"));
  pending.putBack(aChange("a", "1", "2", 1));
  pending.add(aChange("a", "2", "3"));
  expect(drained(pending)).toEqual(["b 1>2 @2 0", "a 1>3 @3 1"]);
});

it("loses the oldest change when too many nodes wait", () => {
  const pending = new PendingChanges(2);
  const lost = ["a", "b", "c"].map((node) => pending.add(aChange(node, "1", "2"))?.node);
  expect(lost).toEqual([undefined, undefined, "a"]);
  expect(pending.putBack(aChange("d", "1", "2", 1))?.node).toBe("b");
  expect(pending.size).toBe(2);
});
