/** A value in an object that may be anything, together with its path. */
import { type Fault, type Faults, type FaultType, listed, quoted } from "./fault.ts";

/** Of a name in a place, in characters. Each fault below a name of megabytes would repeat it. No valid one is longer. */
const MAX_NAME = 253;

/** Never throws: a value of another type than the one that is asked for counts as absent. */
export class Field {
  readonly path: string;
  readonly value: unknown;
  /** As the path, but with the names of list items and not their indexes. */
  readonly place: string;

  constructor(path: string, value: unknown, place: string = path) {
    this.path = path;
    this.value = value;
    this.place = place;
  }

  /** `spec` → `spec.name` */
  get(name: string): Field {
    return this.#below(this.path === "" ? name : `.${name}`, this.#own(name));
  }

  /** `requests` → `requests[name]` */
  key(name: string): Field {
    return this.#below(`[${name}]`, this.#own(name));
  }

  get isSet(): boolean {
    return this.value !== undefined && this.value !== null;
  }

  get text(): string {
    return typeof this.value === "string" ? this.value : "";
  }

  /** 0 for what is no integer, as Go has it. */
  get integer(): number {
    return Number.isInteger(this.value) ? Number(this.value) : 0;
  }

  /** Of a list. */
  get size(): number {
    return this.#list.length;
  }

  /** `list` → `list[0]`, … One by one, because a list may be as long as a request. */
  *items(): Generator<Field, void, undefined> {
    for (const [at, item] of this.#list.entries()) {
      const unnamed = new Field("", item);
      const name = (unnamed.text || unnamed.get("name").text).slice(0, MAX_NAME);
      yield new Field(`${this.path}[${at}]`, item, `${this.place}[${name}]`);
    }
  }

  /** The keys of a map. */
  get keys(): readonly string[] {
    return isRecord(this.value) ? Object.keys(this.value) : [];
  }

  required(detail?: string): Fault {
    return this.#fault("Required", detail === undefined ? "Required value" : `Required value: ${detail}`);
  }

  /** @param shown the value in the message. */
  invalid(detail: string, shown: unknown = this.value): Fault {
    return this.#fault("Invalid", `Invalid value: ${quoted(shown)}: ${detail}`);
  }

  /** @param note the end of the message. */
  notSupported(supported: readonly string[], note = ""): Fault {
    const message = `Unsupported value: ${quoted(this.value)}: supported values: ${listed(supported)}${note}`;
    return this.#fault("NotSupported", message);
  }

  notFound(): Fault {
    return this.#fault("NotFound", `Not found: ${quoted(this.value)}`);
  }

  forbidden(detail: string): Fault {
    return this.#fault("Forbidden", `Forbidden: ${detail}`);
  }

  internal(detail: string): Fault {
    return this.#fault("Internal", `Internal error: ${detail}`);
  }

  /** A fault if `seen` has the text already. Adds it. */
  *unique(seen: Set<string>, text: string = this.text): Faults {
    if (seen.has(text)) yield this.#fault("Duplicate", `Duplicate value: ${quoted(text)}`);
    seen.add(text);
  }

  get #list(): readonly unknown[] {
    return Array.isArray(this.value) ? this.value : [];
  }

  #own(name: string): unknown {
    return isRecord(this.value) && Object.hasOwn(this.value, name) ? this.value[name] : undefined;
  }

  #below(step: string, value: unknown): Field {
    return new Field(this.path + step, value, this.place + step);
  }

  #fault(type: FaultType, message: string): Fault {
    return { type, field: this.path, message, place: this.place, value: this.value };
  }
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
