/** Answers of an API server in protobuf (kubernetes.io, "API concepts", "Protobuf encoding"). */
import type { Projection } from "../client.ts";
import type { KubeObject } from "../object.ts";
import { apiVersionOf, type Resource } from "../resource.ts";
import { DecodedTexts } from "./decoded-texts.ts";
import { anyObject, listMeta, messageOf, status } from "./messages.ts";
import { type Plan, planOf } from "./plan.ts";
import { ProtobufReader, UnknownField } from "./reader.ts";

/** A server that does not have a resource in protobuf answers with JSON. */
export const PROTOBUF = "application/vnd.kubernetes.protobuf";
export const ACCEPT: string = `${PROTOBUF},application/json`;
export const ACCEPT_STREAM: string = `${PROTOBUF};stream=watch,application/json`;

/** How each answer begins, and each object in an event of a watch. */
export const MAGIC: Buffer = Buffer.from("k8s\0");
/** In `runtime.Unknown`, which is around each answer: 1 is the kind. */
export const CONTENT = 2;
/** In `WatchEvent`, whose object is a `RawExtension` with one field. */
const EVENT_TYPE = 1;
const EVENT_OBJECT = 2;
const RAW = 1;

/** Decodes the wanted fields of objects of one resource, and skips all others. @throws RangeError for other bytes. */
export class ObjectDecoder<T extends KubeObject> {
  readonly #plan: Plan;
  readonly #kind: Pick<KubeObject, "apiVersion" | "kind">;
  readonly #texts = new DecodedTexts();
  #isOutdated = false;

  constructor(resource: Resource<T>, plan: Plan) {
    this.#plan = plan;
    this.#kind = { apiVersion: apiVersionOf(resource), kind: resource.kind };
  }

  /** The server is of a later release and writes fields that are not known here: they have to be read as JSON. */
  get isOutdated(): boolean {
    return this.#isOutdated;
  }

  /** An item of a list, with its kind. */
  item(bytes: Buffer): T {
    const object = { ...this.#kind };
    try {
      new ProtobufReader(bytes, this.#texts).message(this.#plan, bytes.length, object);
    } catch (error) {
      this.#isOutdated ||= error instanceof UnknownField;
      throw error;
    }
    return object as unknown as T;
  }

  /** An event of a watch: of a bookmark the metadata, of an error the `Status`. */
  event(bytes: Buffer): { readonly type: string; readonly object: unknown } {
    const type = fieldOf(bytes, EVENT_TYPE)?.toString("latin1") ?? "";
    const extension = fieldOf(bytes, EVENT_OBJECT);
    const raw = extension && fieldOf(extension, RAW);
    const content = raw && contentOf(raw);
    if (content === undefined) return { type, object: undefined };
    if (type === "ERROR") return { type, object: decodeStatus(content) };
    if (type !== "BOOKMARK") return { type, object: this.item(content) };
    return { type, object: new ProtobufReader(content, this.#texts).message(BOOKMARK) };
  }
}

/** For what comes seldom: metadata of lists, and refusals. */
const TEXTS = new DecodedTexts();
const BOOKMARK = planOf(anyObject, "known");
const LIST_META = planOf(listMeta, "known");
const STATUS = planOf(status, "known");

/** Those in use, by the fields that they decode: their texts outlive one request. */
const decoders = new WeakMap<object, ObjectDecoder<KubeObject>>();

/**
 * `undefined` where the objects have to be read as JSON: a projection names no fields, or one that is not known, or an
 * object had a field of a later release.
 */
export function decoderOf<T extends KubeObject>(
  resource: Resource<T>,
  project: Projection<T> | undefined,
): ObjectDecoder<T> | undefined {
  const message = messageOf(resource);
  if (message === undefined || project?.fields === undefined) return undefined;
  const known = decoders.get(project.fields);
  if (known !== undefined) return known.isOutdated ? undefined : (known as ObjectDecoder<T>);
  const { apiVersion: _, kind: __, ...wanted } = project.fields;
  const plan = planOf(message, wanted);
  if (plan === undefined) return undefined;
  const decoder = new ObjectDecoder(resource, plan);
  decoders.set(project.fields, decoder);
  return decoder;
}

/** Of an answer that is protobuf or JSON: its first bytes, one at least. */
export function startsProtobuf(bytes: Buffer): boolean {
  return bytes[0] === MAGIC[0];
}

export function isProtobuf(bytes: Buffer): boolean {
  return bytes.subarray(0, MAGIC.length).equals(MAGIC);
}

/** The metadata of a list. */
export function decodeListMeta(bytes: Buffer): Record<string, unknown> {
  return new ProtobufReader(bytes, TEXTS).message(LIST_META);
}

/** The `Status` of an answer as JSON has it; `{}` for bytes that are none. */
export function statusIn(answer: Buffer): object {
  try {
    return decodeStatus(contentOf(answer) ?? Buffer.alloc(0));
  } catch {
    return {};
  }
}

function decodeStatus(content: Buffer): object {
  return { kind: "Status", ...new ProtobufReader(content, TEXTS).message(STATUS) };
}

function contentOf(answer: Buffer): Buffer | undefined {
  return isProtobuf(answer) ? fieldOf(answer.subarray(MAGIC.length), CONTENT) : undefined;
}

function fieldOf(message: Buffer, number: number): Buffer | undefined {
  return new ProtobufReader(message, TEXTS).find(number);
}
