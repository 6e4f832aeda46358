import type { DecodedTexts } from "./decoded-texts.ts";
import type { Plan, PlannedField } from "./plan.ts";

/** Wire types (protobuf.dev, "Encoding"). Groups, 3 and 4, are not in use. */
const VARINT = 0;
const FIXED64 = 1;
export const BYTES = 2;
const FIXED32 = 5;

/** An object has a field of a later release where all fields are wanted. */
export class UnknownField extends RangeError {
  constructor(number: number) {
    super(`field ${number} is from a later release`);
  }
}

/** Reads one piece of protobuf. @throws RangeError when it ends too early, or is no protobuf. */
export class ProtobufReader {
  readonly #bytes: Buffer;
  readonly #texts: DecodedTexts;
  #at = 0;

  constructor(bytes: Buffer, texts: DecodedTexts) {
    this.#bytes = bytes;
    this.#texts = texts;
  }

  /** The message up to `end`, as JSON has it. @param object to be filled. */
  message(
    plan: Plan,
    end: number = this.#bytes.length,
    object: Record<string, unknown> = {},
  ): Record<string, unknown> {
    let maps: Map<string, [key: string, value: unknown][]> | undefined;
    while (this.#at < end) {
      const tag = this.varint();
      const field = plan.fields[tag >>> 3];
      if (field === undefined) {
        if (plan.isWhole) throw new UnknownField(tag >>> 3);
        this.#skip(tag & 7);
      } else if ((tag & 7) !== wireTypeOf(field.kind)) throw new RangeError(`${field.name} has another type`);
      else if (field.is !== "map") this.#field(object, field);
      else {
        maps ??= new Map();
        const entries = maps.get(field.name) ?? [];
        entries.push(this.#entry(field.kind));
        maps.set(field.name, entries);
      }
    }
    if (this.#at > end) throw new RangeError("a message is longer than it says");
    // V8 keeps an object that is made of all of its entries in a third of the memory of one to which they are added.
    for (const [name, entries] of maps ?? []) object[name] = Object.fromEntries(entries);
    return object;
  }

  /** The bytes of the first field of this number; `undefined` without one. */
  find(number: number): Buffer | undefined {
    while (this.#at < this.#bytes.length) {
      const tag = this.varint();
      if (tag >>> 3 !== number) this.#skip(tag & 7);
      else {
        const end = this.#end();
        return this.#bytes.subarray(this.#at, end);
      }
    }
    return undefined;
  }

  varint(): number {
    const bytes = this.#bytes;
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[this.#at++];
      if (byte === undefined) throw new RangeError("the bytes end inside a number");
      if (scale > Number.MAX_SAFE_INTEGER) return this.#longVarint();
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  }

  text(): string {
    const end = this.#end();
    const text = this.#texts.at(this.#bytes, this.#at, end);
    this.#at = end;
    return text;
  }

  #field(object: Record<string, unknown>, { name, kind, is, always }: PlannedField): void {
    if (is === "one") {
      const value = this.#value(kind);
      if (always || (value !== "" && value !== 0 && value !== false && value !== undefined))
        object[name] = value;
    } else {
      const known = object[name] as unknown[] | undefined;
      if (known === undefined) object[name] = [this.#value(kind)];
      else known.push(this.#value(kind));
    }
  }

  /** A message of a key and a value. */
  #entry(kind: PlannedField["kind"]): [key: string, value: unknown] {
    const end = this.#end();
    let key = "";
    let value: unknown = "";
    while (this.#at < end) {
      const tag = this.varint();
      if (tag >>> 3 === 1) key = this.text();
      else if (tag >>> 3 === 2) value = this.#value(kind);
      else this.#skip(tag & 7);
    }
    if (this.#at > end) throw new RangeError("an entry is longer than it says");
    return [key, value];
  }

  #value(kind: PlannedField["kind"]): unknown {
    switch (kind) {
      case "text":
        return this.text();
      case "number":
        return this.varint();
      case "flag":
        return this.varint() !== 0;
      case "time":
        return this.#time();
      case "quantity":
        return this.message(QUANTITY, this.#end())["string"] ?? "0";
      default:
        return this.message(kind, this.#end());
    }
  }

  /** Whole seconds, as JSON has them. `undefined` for a time that is not set. */
  #time(): string | undefined {
    const { seconds } = this.message(TIME, this.#end());
    return typeof seconds === "number" ? this.#texts.time(seconds) : undefined;
  }

  #skip(wireType: number): void {
    if (wireType === BYTES) this.#at = this.#end();
    else if (wireType === VARINT) this.varint();
    else if (wireType === FIXED64) this.#at = this.#checked(this.#at + 8);
    else if (wireType === FIXED32) this.#at = this.#checked(this.#at + 4);
    else throw new RangeError(`there is no wire type ${wireType}`);
  }

  /** Reads a length. @returns where the bytes behind it end. */
  #end(): number {
    const length = this.varint();
    return this.#checked(this.#at + length);
  }

  #checked(end: number): number {
    if (end > this.#bytes.length) throw new RangeError("the bytes end inside a field");
    return end;
  }

  /** Negative numbers have ten bytes: the reader is behind the ninth. */
  #longVarint(): number {
    let value = 0n;
    for (let at = this.#at - 9; ; at++) {
      const byte = this.#bytes[at];
      if (byte === undefined || at > this.#at) throw new RangeError("a number has more than ten bytes");
      value |= BigInt(byte & 127) << BigInt(7 * (at - this.#at + 9));
      if (byte >= 128) continue;
      this.#at = at + 1;
      return Number(BigInt.asIntN(64, value));
    }
  }
}

function wireTypeOf(kind: PlannedField["kind"]): number {
  return kind === "number" || kind === "flag" ? VARINT : BYTES;
}

const QUANTITY: Plan = {
  fields: [undefined, { name: "string", kind: "text", is: "one", always: false }],
  isWhole: false,
};
const TIME: Plan = {
  fields: [undefined, { name: "seconds", kind: "number", is: "one", always: true }],
  isWhole: false,
};
