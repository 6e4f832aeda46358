/** Protobuf as an API server writes it, for tests: fields as number and value, in order. */
import type { Fields } from "../../client.ts";

/** A projection's `fields` of these names, with all that is below each. */
export function allOf(names: string): Fields {
  return Object.fromEntries(names.split(" ").map((name) => [name, "all"]));
}

export type Value = string | number | bigint | boolean | Buffer;

/** A message of these fields. Texts and buffers have their length before them, all else is a varint. */
export function encode(...fields: readonly (readonly [number: number, value: Value])[]): Buffer {
  return Buffer.concat(
    fields.flatMap(([number, value]) => {
      if (typeof value !== "string" && !Buffer.isBuffer(value))
        return [varint(BigInt(number) << 3n), varint(BigInt.asUintN(64, BigInt(value)))];
      const bytes = Buffer.from(value);
      return [varint((BigInt(number) << 3n) | 2n), varint(BigInt(bytes.length)), bytes];
    }),
  );
}

/** What is around each answer: `runtime.Unknown`. */
export function answer(content: Buffer): Buffer {
  const type = encode([1, "v1"], [2, "Node"]);
  return Buffer.concat([Buffer.from("k8s\0"), encode([1, type], [2, content], [3, ""], [4, ""])]);
}

/** An event of a watch with its length before it. */
export function frame(type: string, content: Buffer): Buffer {
  const event = encode([1, type], [2, encode([1, answer(content)])]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(event.length);
  return Buffer.concat([length, event]);
}

function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let left = value;
  for (; left > 127n; left >>= 7n) bytes.push(Number(left & 127n) | 128);
  return Buffer.from([...bytes, Number(left)]);
}
