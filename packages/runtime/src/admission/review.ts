/**
 * AdmissionReview in both directions, as on the wire. Pure. It accepts any input, because any client can send one.
 *
 * Source: k8s.io/api/admission/v1 types.go. The JSON is equal to the byte: field order, omitted fields.
 */
import type { FailureCause, JsonPatchOperation } from "@berth/kube";

/** The operation on the object. */
export type AdmissionOperation = "CREATE" | "UPDATE" | "DELETE" | "CONNECT";

/** A question of the API server. A field that was not sent is `""`, or absent where it is optional. */
export interface AdmissionRequest {
  /** The uid of this question, not of an object. The API server may send a question twice. */
  readonly uid: string;
  /** Kind of the object, in the version that the handler is registered for (`matchPolicy: Equivalent` converts). */
  readonly kind: { readonly group: string; readonly version: string; readonly kind: string };
  readonly resource: { readonly group: string; readonly version: string; readonly resource: string };
  readonly subResource?: string;
  /** Absent when the API server is to generate it. */
  readonly name?: string;
  /** Absent for objects without one. */
  readonly namespace?: string;
  /** `""` for an operation that the API does not know today. */
  readonly operation: AdmissionOperation | "";
  /** Nothing will be stored, so a handler must not change anything else either. */
  readonly dryRun?: boolean;
  /** The object as sent; integers beyond 2^53 have lost digits. Absent for DELETE and some CONNECTs. */
  readonly object?: unknown;
  /** The stored object, for UPDATE and DELETE. */
  readonly oldObject?: unknown;
  /** The user of the API server who sent the request. */
  readonly userInfo?: AdmissionUser;
}

/** A user, as the API server authenticated it. */
export interface AdmissionUser {
  readonly username?: string;
  /** Of the user. Not every authenticator gives one. */
  readonly uid?: string;
  readonly groups?: readonly string[];
  /** What else the authenticator says about the user. An authorizer may need it. */
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** One fault of an object. kubectl shows `field: message`. */
export interface AdmissionCause extends Required<FailureCause> {
  /** `FieldValueRequired`, `FieldValueInvalid`, … (`CauseType` of k8s.io/apimachinery/pkg/apis/meta/v1). */
  readonly reason: string;
  /** `Invalid value: 0: must be greater than 0`. */
  readonly message: string;
  /** `spec.template.spec.containers[0].image`. */
  readonly field: string;
}

/** The decision of a handler. */
export interface AdmissionAnswer {
  readonly allowed: boolean;
  /** Applied before the object is stored. Only when allowed, and only for a MutatingWebhookConfiguration. */
  readonly patch?: readonly JsonPatchOperation[];
  /** The reason for the user. The API server shows it after `admission webhook "…" denied the request:`. */
  readonly message?: string;
  /**
   * All faults of the object. They make a denial a 422 `Invalid`, like one of the API server itself, and the default
   * `message` lists them. Without causes a denial is a 403 `Forbidden`.
   */
  readonly causes?: readonly AdmissionCause[];
  /**
   * Seconds. It makes a denial a 429 `TooManyRequests`: clients of the API server, kubectl too, send the request again
   * after this time.
   */
  readonly retryAfterSeconds?: number;
  /** For the user. The API server cuts warnings beyond 256 characters once all together have 4096. */
  readonly warnings?: readonly string[];
}

/** An AdmissionReview that could be read. */
export interface Review {
  /** Sent back when the answer has a patch; `""` when absent. */
  readonly apiVersion: string;
  readonly kind: string;
  /** Absent when the review has none: then there is nothing to decide. */
  readonly request: AdmissionRequest | undefined;
}

/** A body as a review, or why it is invalid, in a sentence that quotes nothing of the body. */
export type ParsedReview = { readonly review: Review } | { readonly problem: string };

const OPERATIONS: ReadonlySet<string> = new Set<AdmissionOperation>([
  "CREATE",
  "UPDATE",
  "DELETE",
  "CONNECT",
]);

/**
 * Reads a body. `null` means absent, as in Go; unknown fields are ignored. Problems are: no JSON, no object, a field of
 * another type than the API has.
 */
export function parseReview(body: Uint8Array): ParsedReview {
  let json: unknown;
  try {
    json = JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("utf8"));
  } catch {
    // The message of JSON.parse quotes the body.
    return { problem: "not JSON" };
  }
  try {
    const review = new Fields(json ?? {}, "review");
    const request = review.record("request");
    return {
      review: {
        apiVersion: review.text("apiVersion"),
        kind: review.text("kind"),
        request: request && toRequest(request),
      },
    };
  } catch (error) {
    if (error instanceof WrongType) return { problem: error.message };
    throw error;
  }
}

function toRequest(request: Fields): AdmissionRequest {
  const kind = request.record("kind");
  const resource = request.record("resource");
  const user = request.record("userInfo");
  const operation = request.text("operation");
  return {
    uid: request.text("uid"),
    kind: {
      group: kind?.text("group") ?? "",
      version: kind?.text("version") ?? "",
      kind: kind?.text("kind") ?? "",
    },
    resource: {
      group: resource?.text("group") ?? "",
      version: resource?.text("version") ?? "",
      resource: resource?.text("resource") ?? "",
    },
    operation: isOperation(operation) ? operation : "",
    ...without({
      subResource: request.text("subResource") || undefined,
      name: request.text("name") || undefined,
      namespace: request.text("namespace") || undefined,
      dryRun: request.flag("dryRun"),
      object: request.any("object"),
      oldObject: request.any("oldObject"),
      userInfo: user && toUser(user),
    }),
  };
}

function toUser(user: Fields): AdmissionUser {
  const extra = user.record("extra");
  return without({
    username: user.text("username") || undefined,
    uid: user.text("uid") || undefined,
    groups: user.texts("groups"),
    extra: extra && Object.fromEntries(extra.names.map((name) => [name, extra.texts(name) ?? []])),
  });
}

function isOperation(text: string): text is AdmissionOperation {
  return OPERATIONS.has(text);
}

/** Omits fields that are `undefined`. */
function without<T extends object>(fields: T): { readonly [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    readonly [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

class WrongType extends Error {}

/** Reads the fields of a JSON object. Throws `WrongType` with the field's name for values that Go rejects too. */
class Fields {
  readonly #value: Readonly<Record<string, unknown>>;
  readonly #path: string;

  constructor(value: unknown, path: string) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw new WrongType(`${path} is not an object`);
    }
    this.#value = value as Readonly<Record<string, unknown>>;
    this.#path = path;
  }

  get names(): readonly string[] {
    return Object.keys(this.#value);
  }

  any(name: string): unknown {
    return Object.hasOwn(this.#value, name) ? (this.#value[name] ?? undefined) : undefined;
  }

  record(name: string): Fields | undefined {
    const value = this.any(name);
    return value === undefined ? undefined : new Fields(value, `${this.#path}.${name}`);
  }

  text(name: string): string {
    const value = this.any(name) ?? "";
    if (typeof value !== "string") throw new WrongType(`${this.#path}.${name} is not a string`);
    return value;
  }

  flag(name: string): boolean | undefined {
    const value = this.any(name);
    if (value === undefined || typeof value === "boolean") return value;
    throw new WrongType(`${this.#path}.${name} is not true or false`);
  }

  texts(name: string): readonly string[] | undefined {
    const value = this.any(name);
    if (value === undefined) return undefined;
    if (Array.isArray(value) && value.every((item) => typeof item === "string")) return value;
    throw new WrongType(`${this.#path}.${name} is not a list of strings`);
  }
}

/** The answer to a review without a request. */
export const ALLOWED: AdmissionAnswer = { allowed: true };

/**
 * The answer to a review. With a patch it has the review's own `apiVersion` and `kind`; without one it is always
 * `admission.k8s.io/v1`. A patch without operations counts as none.
 * @throws TypeError when the patch holds a value that JSON cannot express.
 */
export function renderReview({ apiVersion, kind, request }: Review, answer: AdmissionAnswer): string {
  const { allowed, patch = [], warnings = [] } = answer;
  const patched = allowed && patch.length > 0;
  return JSON.stringify({
    ...(patched
      ? { kind: kind || undefined, apiVersion: apiVersion || undefined }
      : { kind: "AdmissionReview", apiVersion: "admission.k8s.io/v1" }),
    response: {
      uid: request?.uid ?? "",
      allowed,
      status: toStatus(answer, request),
      ...(patched && {
        patch: Buffer.from(JSON.stringify(patch)).toString("base64"),
        patchType: "JSONPatch",
      }),
      ...(warnings.length > 0 && { warnings }),
    },
  });
}

/** A denial has a code. Without one the API server sends 400, as if the object were malformed. */
function toStatus(
  { allowed, message, causes = [], retryAfterSeconds }: AdmissionAnswer,
  request: AdmissionRequest | undefined,
): object | undefined {
  if (allowed) return message === undefined ? undefined : { metadata: {}, message };
  if (retryAfterSeconds !== undefined)
    return { metadata: {}, message, reason: "TooManyRequests", details: { retryAfterSeconds }, code: 429 };
  if (causes.length === 0) return { metadata: {}, message, reason: "Forbidden", code: 403 };
  const { group = "", kind = "" } = request?.kind ?? {};
  const { name } = request ?? {};
  const details = { name, group: group || undefined, kind: kind || undefined, causes };
  const said = message ?? listing(causes, { name, of: group === "" ? kind : `${kind}.${group}` });
  return { metadata: {}, message: said, reason: "Invalid", details, code: 422 };
}

/** In the words of `NewInvalid` (k8s.io/apimachinery/pkg/api/errors) and `ToAggregate` (…/pkg/util/validation/field). */
function listing(
  causes: readonly AdmissionCause[],
  { name = "", of }: { readonly name: string | undefined; readonly of: string },
): string {
  const faults = [...new Set(causes.map(({ field, message }) => `${field}: ${message}`))];
  const all = faults.length === 1 ? faults[0] : `[${faults.join(", ")}]`;
  return `${of} ${JSON.stringify(name)} is invalid: ${all}`;
}
