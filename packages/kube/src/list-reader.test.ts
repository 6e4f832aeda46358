import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ListReader } from "./list-reader.ts";

/** What comes out when the answer arrives in pieces of these sizes, in turn. */
function read(answer: string, sizes: readonly number[]): { readonly split: number; readonly items: unknown } {
  const reader = new ListReader((item) => parse(item));
  const bytes = Buffer.from(answer);
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length] ?? 1;
    reader.add(bytes.subarray(at, at + size));
    at += size;
  }
  const rest = parse(reader.end()) as { readonly items: readonly unknown[] } | undefined;
  return { split: reader.items.length, items: rest && [...reader.items, ...rest.items] };
}

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    return undefined;
  }
}

const metadata = { resourceVersion: "7", continue: "x" };
const nodes = ["a", "b", "c"].map((name) => ({
  metadata: { name },
  status: { images: [{ names: [name] }] },
}));

describe("items", () => {
  it.each([
    ["of a built-in resource", { kind: "NodeList", metadata, items: nodes }, 2],
    [
      "of a custom resource, with what surrounds them behind",
      { apiVersion: "v1", items: nodes.map((it) => ({ apiVersion: "v1", ...it })), kind: "XList", metadata },
      2,
    ],
    ["of which there is one", { kind: "NodeList", metadata, items: nodes.slice(0, 1) }, 0],
    ["of which there are none", { kind: "NodeList", metadata, items: [] }, 0],
    [
      "that hold a list of objects like themselves",
      {
        kind: "StatefulSetList",
        metadata,
        items: [...nodes, { metadata: { name: "d" }, spec: nodes }, ...nodes],
      },
      3,
    ],
    [
      "that quote another list",
      { kind: "NodeList", metadata, items: nodes.map((it) => ({ ...it, note: JSON.stringify(nodes) })) },
      2,
    ],
    ["that begin differently", { metadata, items: [nodes[0], { kind: "Node" }, ...nodes] }, 0],
  ])("%s", (_, list, split) => {
    for (const size of [1, 2, 7, 100_000]) {
      expect(read(JSON.stringify(list), [size])).toEqual({ split, items: list.items });
    }
  });

  it("are decoded at the end when the list is written with blanks", () => {
    const list = { kind: "NodeList", metadata, items: nodes };
    expect(read(JSON.stringify(list, undefined, 2), [50])).toEqual({ split: 0, items: nodes });
  });

  it("come as the parser reads them, however they are cut", () => {
    const item = fc.record({ metadata: fc.jsonValue({ maxDepth: 3 }), é: fc.jsonValue({ maxDepth: 3 }) });
    const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(fc.array(item), fc.boolean(), sizes, (items, isBehind, sizes) => {
        const list = isBehind ? { items, metadata } : { metadata, items };
        expect(read(JSON.stringify(list), sizes).items).toEqual(JSON.parse(JSON.stringify(items)));
      }),
    );
  });

  it.each(["", "{", '{"items":[{"metadata":{}},{"metadata":', "no JSON at all"])(
    "of %j are none",
    (answer) => {
      expect(read(answer, [10]).items).toBeUndefined();
    },
  );
});
