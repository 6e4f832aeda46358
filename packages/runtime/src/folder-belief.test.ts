import { describe, expect, it } from "vitest";
import { type Belief, believe, sameSnapshot } from "./folder-belief.ts";
import type { FolderSnapshot } from "./folder-reader.ts";

const settle = { emptyMs: 1000, goneMs: 100 };

function snapshot(
  texts: Readonly<Record<string, string>>,
  more: Partial<FolderSnapshot> = {},
): FolderSnapshot {
  const files = new Map(Object.entries(texts).map(([path, text]) => [path, { path, text }]));
  return { root: "read", complete: true, files, problems: [], ...more };
}

function after(
  before: FolderSnapshot,
  ...steps: readonly (readonly [nowMs: number, read: FolderSnapshot])[]
): Belief {
  let belief: Belief = { snapshot: before, doubts: new Map(), recheckAfterMs: Number.POSITIVE_INFINITY };
  for (const [nowMs, read] of steps) {
    belief = believe({ before: belief.snapshot, read, doubts: belief.doubts, nowMs, settle });
  }
  return belief;
}

describe("believe", () => {
  it("keeps the last text of a file that is empty now, beside what else changed, and asks again", () => {
    const belief = after(snapshot({ a: "1" }), [0, snapshot({ a: "", b: "2" })]);
    expect(sameSnapshot(belief.snapshot, snapshot({ a: "1", b: "2" }))).toBe(true);
    expect(belief.recheckAfterMs).toBe(1000);
  });

  it("believes empty after it has lasted, and starts over when text was seen in between", () => {
    const empty = snapshot({ a: "" });
    const lasting = after(snapshot({ a: "1" }), [0, empty], [1000, empty]);
    expect(lasting.snapshot.files.get("a")?.text).toBe("");
    const flapping = after(snapshot({ a: "1" }), [0, empty], [600, snapshot({ a: "2" })], [1100, empty]);
    expect(flapping.snapshot.files.get("a")?.text).toBe("2");
    expect(flapping.recheckAfterMs).toBe(1000);
  });

  it("believes that a file is gone after a shorter time", () => {
    const gone = snapshot({});
    expect(after(snapshot({ a: "1" }), [0, gone]).snapshot.files.size).toBe(1);
    expect(after(snapshot({ a: "1" }), [0, gone], [100, gone]).snapshot.files.size).toBe(0);
  });

  it("takes a new empty file, and the end of an empty one, at once", () => {
    expect(after(snapshot({}), [0, snapshot({ a: "" })]).snapshot.files.get("a")?.text).toBe("");
    expect(after(snapshot({ a: "" }), [0, snapshot({})]).snapshot.files.size).toBe(0);
  });

  it("holds nothing back in a reading that is incomplete or has no root: these say so themselves", () => {
    const missing = snapshot({}, { root: "missing", complete: false });
    expect(after(snapshot({ a: "1" }), [0, missing]).snapshot).toBe(missing);
    const partial = snapshot({ b: "1" }, { complete: false });
    expect(after(snapshot({ a: "1" }), [0, partial]).snapshot).toBe(partial);
  });
});
