import { describe, expect, it } from "vitest";
import * as z from "zod";
import { readClusterDocuments } from "./sources.ts";

const spec = z.strictObject({ a: z.number() });
const of = (name: string, creationTimestamp: string) => ({
  metadata: { name, creationTimestamp },
  spec: { a: 1 },
});
const [EARLY, LATE] = ["2026-11-23T10:00:00Z", "2026-11-24T09:00:00Z"];

describe("documents of the cluster", () => {
  it("come with the oldest first, and of one second by name", () => {
    const found = [of("a", LATE), of("d", EARLY), of("c", EARLY), of("b", LATE)];
    const { documents, objects } = readClusterDocuments({ spec }, found);
    expect(documents.map(({ name }) => name)).toEqual(["c", "d", "a", "b"]);
    expect([...objects.keys()]).toEqual(["c", "d", "a", "b"]);
  });

  it("are named with the field at fault when they do not fit the schema", () => {
    const found = [{ metadata: { name: "x" }, spec: { a: "1" } }, of("y", EARLY)];
    const { documents, unreadable } = readClusterDocuments({ spec }, found);
    expect(documents.map(({ name }) => name)).toEqual(["y"]);
    expect(unreadable).toEqual([{ name: "x", message: expect.stringMatching(/^spec\.a: /) }]);
  });
});
