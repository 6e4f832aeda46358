import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun } from "../testing/property.ts";
import { type AdmissionCause, ALLOWED, parseReview, type Review, renderReview } from "./review.ts";

const bytes = (text: string): Uint8Array => Buffer.from(text);

function read(text: string): Review {
  const parsed = parseReview(bytes(text));
  if ("problem" in parsed) throw new Error(parsed.problem);
  return parsed.review;
}

/** As kube-apiserver sends it, cut down. */
const SENT = {
  kind: "AdmissionReview",
  apiVersion: "admission.k8s.io/v1",
  request: {
    uid: "705ab4f5",
    kind: { group: "apps", version: "v1", kind: "Deployment" },
    resource: { group: "apps", version: "v1", resource: "deployments" },
    subResource: "scale",
    requestKind: { group: "apps", version: "v1", kind: "Deployment" },
    name: "web",
    namespace: "shop",
    operation: "UPDATE",
    userInfo: { username: "ann", uid: "1", groups: ["ops"], extra: { a: ["b"] } },
    object: { metadata: { name: "web" }, unknown: [1] },
    oldObject: { metadata: { name: "web" } },
    dryRun: true,
    options: null,
  },
};

describe("parseReview", () => {
  it("reads what the API server sends, and keeps the objects as they came", () => {
    const { request } = read(JSON.stringify(SENT));
    expect(request).toEqual({
      uid: "705ab4f5",
      kind: { group: "apps", version: "v1", kind: "Deployment" },
      resource: { group: "apps", version: "v1", resource: "deployments" },
      subResource: "scale",
      name: "web",
      namespace: "shop",
      operation: "UPDATE",
      userInfo: { username: "ann", uid: "1", groups: ["ops"], extra: { a: ["b"] } },
      object: { metadata: { name: "web" }, unknown: [1] },
      oldObject: { metadata: { name: "web" } },
      dryRun: true,
    });
  });

  it("leaves out what is absent or null, and calls a text that is absent empty", () => {
    const kind = { group: "", version: "", kind: "" };
    const resource = { group: "", version: "", resource: "" };
    const empty = { uid: "", kind, resource, operation: "" };
    expect(read(`{"request":{}}`)).toEqual({ apiVersion: "", kind: "", request: empty });
    expect(read(`{"request":{"uid":null,"object":null,"dryRun":null,"userInfo":null}}`).request).toEqual(
      empty,
    );
    expect(Object.keys(read(`{"request":{}}`).request ?? {})).toEqual(Object.keys(empty));
  });

  it.each(["{}", "null", ` {"request":null} `, `{"request":null,"more":[{}]}`])(
    "finds nothing to decide in %s",
    (text) => {
      expect(read(text).request).toBeUndefined();
    },
  );

  it("takes an operation that it does not know for none", () => {
    expect(read(`{"request":{"operation":"PATCH"}}`).request?.operation).toBe("");
    expect(read(`{"request":{"operation":"CONNECT"}}`).request?.operation).toBe("CONNECT");
  });

  it.each([
    ["{not-json", "not JSON"],
    ["", "not JSON"],
    ["\uFEFF{}", "not JSON"],
    ["{} {}", "not JSON"],
    ["[]", "review is not an object"],
    ["7", "review is not an object"],
    [`"text"`, "review is not an object"],
    [`{"request":[]}`, "review.request is not an object"],
    [`{"kind":1}`, "review.kind is not a string"],
    [`{"request":{"uid":5}}`, "review.request.uid is not a string"],
    [`{"request":{"kind":"Node"}}`, "review.request.kind is not an object"],
    [`{"request":{"dryRun":"yes"}}`, "review.request.dryRun is not true or false"],
    [`{"request":{"userInfo":{"groups":[1]}}}`, "review.request.userInfo.groups is not a list of strings"],
  ])("refuses %j", (text, problem) => {
    expect(parseReview(bytes(text))).toEqual({ problem });
  });

  it("does not take what an object inherits for a field of the review", () => {
    const parsed = read(`{"__proto__":{"request":{"uid":"forged"}},"constructor":{"request":{}}}`);
    expect(parsed.request).toBeUndefined();
  });

  const json = seededRun(300, process.env);
  it(`reads or refuses any JSON, and renders an answer to what it read (${json.name})`, json.options, () => {
    const field = fc.oneof(fc.jsonValue(), fc.constant(null), fc.string());
    const request = fc.oneof(
      field,
      fc.record(
        { uid: field, kind: field, resource: field, operation: field, object: field, userInfo: field },
        { requiredKeys: [] },
      ),
    );
    const review = fc.record({ apiVersion: field, kind: field, request }, { requiredKeys: [] });
    fc.assert(
      fc.property(fc.oneof(review, fc.jsonValue()), (value) => {
        const parsed = parseReview(bytes(JSON.stringify(value)));
        if ("problem" in parsed) return parsed.problem !== "not JSON";
        const answer = JSON.parse(renderReview(parsed.review, ALLOWED)) as unknown;
        expect(answer).toEqual({
          kind: "AdmissionReview",
          apiVersion: "admission.k8s.io/v1",
          response: { uid: parsed.review.request?.uid ?? "", allowed: true },
        });
        return true;
      }),
      json.parameters,
    );
  });

  const garbage = seededRun(300, process.env);
  it(`never throws, whatever the bytes (${garbage.name})`, garbage.options, () => {
    const whole = JSON.stringify(SENT);
    const broken = fc
      .tuple(fc.nat(whole.length), fc.uint8Array({ maxLength: 8 }), fc.nat(whole.length))
      .map(([until, inserted, from]) =>
        Buffer.concat([bytes(whole.slice(0, until)), inserted, bytes(whole.slice(from))]),
      );
    fc.assert(
      fc.property(fc.oneof(broken, fc.uint8Array({ maxLength: 200 })), (body) => {
        const parsed = parseReview(body);
        expect("problem" in parsed || "review" in parsed).toBe(true);
      }),
      garbage.parameters,
    );
  });
});

describe("renderReview", () => {
  const v1 = read(JSON.stringify(SENT));
  const beta = { ...v1, apiVersion: "admission.k8s.io/v1beta1" };
  const patch = [{ op: "add", path: "/spec/taints/-", value: { key: "k" } }] as const;
  const encoded = Buffer.from(JSON.stringify(patch)).toString("base64");

  it("answers in the order of Go's fields, and without what is empty", () => {
    expect(renderReview(v1, { allowed: true, patch })).toBe(
      `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"705ab4f5","allowed":true,"patch":"${encoded}","patchType":"JSONPatch"}}`,
    );
    expect(renderReview(v1, { allowed: true, patch: [], warnings: [] })).toBe(
      `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"705ab4f5","allowed":true}}`,
    );
  });

  it("answers with the version that was asked in when there is a patch, with v1 when there is none", () => {
    expect(renderReview(beta, { allowed: true, patch })).toContain(
      `"apiVersion":"admission.k8s.io/v1beta1","response"`,
    );
    expect(renderReview(beta, { allowed: true })).toContain(`"apiVersion":"admission.k8s.io/v1","response"`);
    expect(renderReview({ ...v1, apiVersion: "", kind: "" }, { allowed: true, patch })).toBe(
      `{"response":{"uid":"705ab4f5","allowed":true,"patch":"${encoded}","patchType":"JSONPatch"}}`,
    );
  });

  it("denies as forbidden and without a patch, and passes on messages and warnings", () => {
    const status = { message: "no", reason: "Forbidden", code: 403 };
    expect(JSON.parse(renderReview(v1, { allowed: false, message: "no", patch }))).toMatchObject({
      response: { uid: "705ab4f5", allowed: false, status },
    });
    expect(renderReview(v1, { allowed: false, patch })).not.toContain("patch");
    expect(JSON.parse(renderReview(v1, { allowed: true, message: "m", warnings: ["w"] }))).toMatchObject({
      response: { allowed: true, status: { message: "m" }, warnings: ["w"] },
    });
  });

  it("denies as invalid with causes, and lists them unless it has a message", () => {
    const image = { reason: "FieldValueRequired", message: "Required value", field: "spec.image" };
    const ports = { reason: "FieldValueInvalid", message: 'Invalid value: "x"', field: "spec.ports[0]" };
    const status = (causes: readonly AdmissionCause[], message?: string): string =>
      renderReview(v1, { allowed: false, causes, ...(message !== undefined && { message }) });
    expect(status([image])).toBe(
      '{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"705ab4f5","allowed":false,' +
        '"status":{"metadata":{},"message":"Deployment.apps \\"web\\" is invalid: spec.image: Required value",' +
        '"reason":"Invalid","details":{"name":"web","group":"apps","kind":"Deployment",' +
        '"causes":[{"reason":"FieldValueRequired","message":"Required value","field":"spec.image"}]},"code":422}}}',
    );
    expect(JSON.parse(status([image, ports, ports]))).toMatchObject({
      response: {
        status: {
          message:
            'Deployment.apps "web" is invalid: [spec.image: Required value, spec.ports[0]: Invalid value: "x"]',
          details: { causes: [image, ports, ports] },
        },
      },
    });
    expect(JSON.parse(status([image], "no"))).toMatchObject({ response: { status: { message: "no" } } });
    expect(JSON.parse(status([]))).toMatchObject({ response: { status: { code: 403 } } });
  });

  it("denies for the moment with the time after which clients ask again", () => {
    expect(renderReview(v1, { allowed: false, message: "busy", retryAfterSeconds: 1 })).toBe(
      '{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"705ab4f5","allowed":false,' +
        '"status":{"metadata":{},"message":"busy","reason":"TooManyRequests","details":{"retryAfterSeconds":1},"code":429}}}',
    );
  });
});
