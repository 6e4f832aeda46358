import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Fields } from "../client.ts";
import { configMaps, nodes } from "../generated/resources.ts";
import type { Node } from "../generated/wire.ts";
import { decoderOf, isProtobuf, statusIn } from "./decoder.ts";
import { ProtobufListReader } from "./list-reader.ts";
import { allOf, answer, encode, type Value } from "./testing/encode.ts";

const keeping = (fields: Fields) => Object.assign((node: Node) => node, { fields });

function decoder(fields: Fields) {
  const made = decoderOf(nodes, keeping(fields));
  if (made === undefined) throw new Error("these fields are read as JSON");
  return made;
}

const ALL: Fields = {
  metadata: allOf(
    "name namespace uid resourceVersion generation labels annotations ownerReferences finalizers " +
      "creationTimestamp deletionTimestamp deletionGracePeriodSeconds",
  ),
  spec: allOf("taints unschedulable podCIDRs providerID"),
  status: allOf("capacity conditions nodeInfo addresses"),
};

/** A node of one field of metadata, spec or status. */
const metadata = (...fields: readonly (readonly [number, Value])[]): Buffer => encode([1, encode(...fields)]);
const spec = (...fields: readonly (readonly [number, Value])[]): Buffer => encode([2, encode(...fields)]);
const status = (...fields: readonly (readonly [number, Value])[]): Buffer => encode([3, encode(...fields)]);
const entry = (key: string, value: Value): Buffer => encode([1, key], [2, value]);
const time = (seconds: number): Buffer => encode([1, seconds], [2, 5]);

describe("an object", () => {
  it.each<[what: string, bytes: Buffer, json: object]>([
    ["of nothing", Buffer.alloc(0), {}],
    ["with empty parts", encode([1, ""], [2, ""]), { metadata: {}, spec: {} }],
    [
      "with texts",
      metadata([1, "n1"], [5, "a-b"], [6, "7"]),
      { metadata: { name: "n1", uid: "a-b", resourceVersion: "7" } },
    ],
    ["with what JSON omits when it is empty", metadata([3, ""], [7, 0], [8, ""]), { metadata: {} }],
    ["with a flag that is not set", spec([4, false]), { spec: {} }],
    ["with a flag that is set", spec([4, true]), { spec: { unschedulable: true } }],
    [
      "with what JSON has when it is empty",
      spec([5, encode([1, "k"], [2, ""], [3, ""])]),
      { spec: { taints: [{ key: "k", effect: "" }] } },
    ],
    ["with a pointer to nothing", metadata([10, 0]), { metadata: { deletionGracePeriodSeconds: 0 } }],
    [
      "with maps",
      metadata([11, entry("a", "1")], [11, entry("b", "")]),
      { metadata: { labels: { a: "1", b: "" } } },
    ],
    [
      "with a map in two parts, and before what looks like its next entry",
      Buffer.concat([
        status([1, entry("a", encode([1, "1"]))], [99, 1], [1, entry("b", encode([1, "2"]))]),
        metadata([1, "n1"]),
      ]),
      { status: { capacity: { a: "1", b: "2" } }, metadata: { name: "n1" } },
    ],
    [
      "with a map whose entries have a field more, or a quantity of nothing",
      status([1, encode([1, "a"], [3, "x"], [2, encode([1, "1"])])], [1, entry("b", "")]),
      { status: { capacity: { a: "1", b: "0" } } },
    ],
    ["with lists of texts", metadata([14, "x"], [14, ""]), { metadata: { finalizers: ["x", ""] } }],
    [
      "with an owner",
      metadata([13, encode([1, "K"], [3, "o"], [4, "u"], [5, "v1"], [6, false])]),
      {
        metadata: {
          ownerReferences: [{ kind: "K", name: "o", uid: "u", apiVersion: "v1", controller: false }],
        },
      },
    ],
    [
      "with a time, in whole seconds",
      metadata([9, time(1_700_000_000)]),
      { metadata: { deletionTimestamp: "2023-11-14T22:13:20Z" } },
    ],
    [
      "with a time before 1970",
      metadata([9, encode([1, -1])]),
      { metadata: { deletionTimestamp: "1969-12-31T23:59:59Z" } },
    ],
    [
      "with times of years that JavaScript writes in another way, or not at all",
      status(
        [4, encode([1, "a"], [3, time(253_402_300_800)])],
        [4, encode([1, "b"], [3, time(9_000_000_000_000)])],
        [4, encode([1, "c"], [3, time(9_000_000_000_000)])],
      ),
      {
        status: {
          conditions: [
            { type: "a", lastHeartbeatTime: "10000-01-01T00:00:00Z" },
            { type: "b" },
            { type: "c" },
          ],
        },
      },
    ],
    ["with quantities", status([1, entry("cpu", encode([1, "4"]))]), { status: { capacity: { cpu: "4" } } }],
    [
      "with large and negative numbers",
      metadata([7, 2 ** 52 + 1], [10, -30]),
      { metadata: { generation: 2 ** 52 + 1, deletionGracePeriodSeconds: -30 } },
    ],
    [
      "with text that is not ASCII",
      metadata([12, entry("é", "日本")]),
      { metadata: { annotations: { é: "日本" } } },
    ],
    [
      "with long text",
      metadata([12, entry("a", "x".repeat(5000))]),
      { metadata: { annotations: { a: "x".repeat(5000) } } },
    ],
    [
      "with fields that are in no table",
      encode([1, encode([1, "n1"], [99, "x"], [100, 7])], [2000, "y"]),
      { metadata: { name: "n1" } },
    ],
    [
      "with fields of a fixed size",
      Buffer.concat([
        Buffer.from([0xf9, 1, ...Array<number>(8).fill(255)]),
        Buffer.from([0xfd, 1, 255, 255, 255, 255]),
        metadata([1, "n1"]),
      ]),
      { metadata: { name: "n1" } },
    ],
  ])("%s", (_, bytes, json) => {
    expect(decoder(ALL).item(bytes)).toEqual({ apiVersion: "v1", kind: "Node", ...json });
  });

  it("has the wanted fields alone", () => {
    const bytes = Buffer.concat([metadata([1, "n1"], [11, entry("a", "1")]), spec([4, true])]);
    expect(decoder({ kind: "all", metadata: { name: "all" } }).item(bytes)).toEqual({
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: "n1" },
    });
  });

  it("shares equal texts with others, and never takes one for another", () => {
    const names = fc.array(fc.string({ unit: "binary", maxLength: 3 }), { maxLength: 50 });
    const one = decoder({ metadata: { finalizers: "all" } });
    fc.assert(
      fc.property(names, (finalizers) => {
        const { metadata: read } = one.item(metadata(...finalizers.map((text) => [14, text] as const)));
        const written = finalizers.map((text) => Buffer.from(text).toString());
        expect(read?.finalizers ?? []).toEqual(written);
      }),
    );
    const invalid = metadata([14, Buffer.from([0xe9])], [14, "é"]);
    expect(one.item(invalid).metadata?.finalizers).toEqual(["\u{fffd}", "é"]);
  });

  it("has each text as it is, also where thousands have the same length", () => {
    const finalizers = Array.from({ length: 20_000 }, (_, index) => `text-${index.toString(36)}`);
    const bytes = metadata(...finalizers.map((text) => [14, text] as const));
    expect(decoder(ALL).item(bytes).metadata?.finalizers).toEqual(finalizers);
  });

  it("is no object when it is cut, or holds other bytes: nothing hangs", () => {
    const first = metadata([1, "n1"], [7, 300], [11, entry("a", "1")]);
    const whole = Buffer.concat([first, spec([4, true])]);
    const failureOf = (bytes: Buffer): unknown => {
      try {
        decoder(ALL).item(bytes);
        return undefined;
      } catch (error) {
        return error;
      }
    };
    const objects = Array.from(whole, (_, length) => failureOf(whole.subarray(0, length))).flatMap(
      (failure, length) => (failure === undefined ? length : []),
    );
    expect(objects).toEqual([0, first.length]);
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        expect(failureOf(Buffer.from(bytes)) ?? new RangeError()).toBeInstanceOf(RangeError);
      }),
    );
  });
});

it.each([
  ["a field of another type", encode([1, 7])],
  ["a flag that is written as text", spec([4, ""])],
  ["a message that is longer than it says", Buffer.from("\x0a\x03\x0a\x05abcde")],
  ["an entry of a map that is longer than it says", encode([1, Buffer.from("\x5a\x03\x0a\x05abcde")])],
  ["a number of eleven bytes", encode([1, Buffer.from([0x38, ...Array.from({ length: 10 }, () => 255), 1])])],
  ["a map whose entry is longer than it says", metadata([11, Buffer.from([0x0a, 3])], [12, "abc"])],
])("%s is no object", (_, bytes) => {
  expect(() => decoder(ALL).item(bytes)).toThrow(RangeError);
});

describe("is read as JSON", () => {
  it("from then on, when a field of a later release comes where all fields are wanted", () => {
    const project = keeping({ status: { nodeInfo: "all" } });
    const later = status([7, encode([1, "machine"], [99, true])]);
    expect(() => decoderOf(nodes, project)?.item(later)).toThrow("field 99 is from a later release");
    expect(decoderOf(nodes, project)).toBeUndefined();
    // Elsewhere it is skipped, as whatever is not wanted.
    expect(decoder({ metadata: { name: "all" } }).item(later)).toEqual({ apiVersion: "v1", kind: "Node" });
  });

  it.each<[string, Fields | undefined]>([
    ["without a projection that names fields", undefined],
    ["when a field is wanted that is not known", { metadata: { managedFields: "all" } }],
    ["when all of something is wanted that is known in part", { metadata: "all" }],
    ["when part of a text is wanted", { metadata: { name: { first: "all" } } }],
  ])("%s", (_, fields) => {
    expect(decoderOf(nodes, fields && keeping(fields))).toBeUndefined();
  });

  it("what is no Node of the core API, as that of metrics.k8s.io", () => {
    const project = Object.assign((object: object) => object, {
      fields: { metadata: { name: "all" } } as const,
    });
    expect(decoderOf(configMaps, project)).toBeUndefined();
    for (const other of [{ group: "metrics.k8s.io" }, { version: "v2" }])
      expect(decoderOf({ ...nodes, ...other }, project)).toBeUndefined();
  });
});

describe("a list", () => {
  const items = ["a", "b", "c"].map((name) => metadata([1, name], [12, entry("x", "y".repeat(40))]));
  const listed = answer(
    encode([1, encode([2, "7"], [3, "more"], [4, 9])], ...items.map((it) => [2, it] as const)),
  );

  function read(
    bytes: Buffer,
    sizes: readonly number[],
  ): { readonly names: readonly unknown[]; readonly rest: string } {
    const reader = new ProtobufListReader(decoder({ metadata: { name: "all" } }));
    for (let at = 0, turn = 0; at < bytes.length; turn++) {
      const size = sizes[turn % sizes.length] ?? 1;
      reader.add(bytes.subarray(at, at + size));
      at += size;
    }
    return { names: reader.items.map((node) => node.metadata?.name), rest: reader.end().toString() };
  }

  it("gives the same items however the network cuts it", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 5 }), (sizes) => {
        const rest = JSON.stringify({
          metadata: { resourceVersion: "7", continue: "more", remainingItemCount: 9 },
        });
        expect(read(listed, sizes)).toEqual({ names: ["a", "b", "c"], rest });
      }),
    );
  });

  it("that is cut is none, between two items too", () => {
    const behind = encode([3, ""], [4, ""]).length;
    for (let length = 0; length < listed.length - behind; length++)
      expect(read(listed.subarray(0, length), [4096]).rest).toBe("");
    expect(read(listed, [4096]).rest).not.toBe("");
  });

  it.each([
    ["nothing", Buffer.alloc(0)],
    ["part of a list", listed.subarray(0, -100)],
    ["another answer that begins so", Buffer.from("kaput")],
    ["no list", answer(Buffer.from([0x0b, 1, 2, 3]))],
    ["a list with an item that is none", answer(encode([1, ""], [2, Buffer.from([0x0a, 9, 1])]))],
  ])("of %s is none", (_, bytes) => {
    expect(read(bytes, [7]).rest).toBe("");
  });
});

describe("a refusal", () => {
  it("has what failures are made of", () => {
    const details = encode([4, encode([1, "FieldValueInvalid"], [2, "no"], [3, "metadata.uid"])], [5, 3]);
    const body = answer(encode([2, "Failure"], [3, "gone"], [4, "Expired"], [5, details], [6, 410]));
    expect(isProtobuf(body)).toBe(true);
    expect(statusIn(body)).toEqual({
      kind: "Status",
      status: "Failure",
      message: "gone",
      reason: "Expired",
      code: 410,
      details: {
        causes: [{ reason: "FieldValueInvalid", message: "no", field: "metadata.uid" }],
        retryAfterSeconds: 3,
      },
    });
  });

  it("of other bytes says nothing", () => {
    expect(statusIn(Buffer.from("k8s\0\n\u007f"))).toEqual({});
    expect(isProtobuf(Buffer.from("kaput"))).toBe(false);
  });
});
