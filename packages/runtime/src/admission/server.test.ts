/** Over real TLS connections; what the API server makes of it is in server.cluster.test.ts. */
import { once } from "node:events";
import { eventually } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { createVirtualClock } from "../clock.ts";
import type { Logger } from "../log.ts";
import { type Answer, startAdmissionPeer } from "../testing/admission-peer.ts";
import { createRecordingMetrics } from "../testing/recording-metrics.ts";
import { type CertificatePair, createAuthority, issueServingCertificate } from "./certificate-authority.ts";
import type { AdmissionContext, AdmissionHandler } from "./review-exchange.ts";

const review = (request: object = {}, apiVersion = "admission.k8s.io/v1"): string =>
  JSON.stringify({
    kind: "AdmissionReview",
    apiVersion,
    request: { uid: "u-1", operation: "CREATE", ...request },
  });

const allow: AdmissionHandler = () => ({ allowed: true });
const patch: AdmissionHandler = () => ({
  allowed: true,
  patch: [{ op: "add", path: "/spec/taints", value: [{ key: "k", value: "v", effect: "NoSchedule" }] }],
});
/** `[{"op":"add","path":"/spec/taints","value":[{"key":"k","value":"v","effect":"NoSchedule"}]}]` */
const PATCH_BYTES =
  "W3sib3AiOiJhZGQiLCJwYXRoIjoiL3NwZWMvdGFpbnRzIiwidmFsdWUiOlt7ImtleSI6ImsiLCJ2YWx1ZSI6InYiLCJlZmZlY3QiOiJOb1NjaGVkdWxlIn1dfV0=";
const ALLOWED_U1 = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"u-1","allowed":true}}`;

/** A handler at `/slow`, and what it was asked with. */
function neverAnswering() {
  const asked = Promise.withResolvers<AdmissionContext>();
  const slow: AdmissionHandler = (_request, context) => {
    asked.resolve(context);
    return new Promise(() => undefined);
  };
  return { asked: asked.promise, handlers: { "/slow": slow } };
}

/** A whole request, as it is sent over a connection. */
const post = (path: string, body: string): string =>
  `POST ${path} HTTP/1.1\r\nhost: a\r\ncontent-length: ${body.length}\r\n\r\n${body}`;

it("an answer has the bytes of Go's encoding, with a patch and without", async () => {
  await using peer = await startAdmissionPeer({ handlers: { "/patch": patch, "/allow": allow } });
  expect(await peer.call("/patch?timeout=5s", { body: review() })).toMatchObject({
    status: 200,
    body: `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"u-1","allowed":true,"patch":"${PATCH_BYTES}","patchType":"JSONPatch"}}`,
    headers: { "content-type": "application/json" },
  });
  expect(await peer.call("/allow", { body: review() })).toMatchObject({ status: 200, body: ALLOWED_U1 });
});

it("an answer allows {} without asking the handler, and refuses {not-json", async () => {
  let asked = 0;
  const handlers = { "/h": () => ({ allowed: asked++ < 0 }) };
  await using peer = await startAdmissionPeer({ handlers });
  expect(await peer.call("/h", { body: "{}" })).toMatchObject({
    status: 200,
    body: `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"","allowed":true}}`,
  });
  expect((await peer.call("/h", { body: "{not-json" })).status).toBe(400);
  expect((await peer.call("/h", { body: "" })).status).toBe(400);
  expect((await peer.call("/h", { body: "[".repeat(100_000) })).status).toBe(413);
  expect(asked).toBe(0);
});

describe("a handler", () => {
  it("that throws or rejects is a 500 without its words, and the next one is asked as ever", async () => {
    const handlers: Record<string, AdmissionHandler> = {
      "/throws": () => {
        throw new Error("broken in secret");
      },
      "/rejects": () => Promise.reject(new Error("broken in secret")),
      "/unencodable": () => ({ allowed: true, patch: [{ op: "add", path: "/a", value: 1n }] }),
      "/allow": allow,
    };
    await using peer = await startAdmissionPeer({ handlers });
    for (const path of ["/throws", "/rejects", "/unencodable"]) {
      const answer = await peer.call(path, { body: review() });
      expect(answer).toMatchObject({ status: 500, body: "internal error\n" });
    }
    expect((await peer.call("/allow", { body: review() })).status).toBe(200);
  });

  it.each([
    ["?timeout=3s", 3000],
    ["?timeout=0m7s", 7000],
    ["", 10_000],
    ["?timeout=soon", 10_000],
    ["?timeout=900s", 30_000],
  ])("has the time that the API server gives with %j", async (query, limitMs) => {
    const clock = createVirtualClock();
    const { asked, handlers } = neverAnswering();
    await using peer = await startAdmissionPeer({ handlers, clock, requestTimeoutMs: 60_000 });
    let answered: Answer | undefined;
    const answer = peer.call(`/slow${query}`, { body: review() }).then((got) => (answered = got));
    const { signal } = await asked;
    await clock.advance(limitMs - 1);
    expect([answered, signal.aborted]).toEqual([undefined, false]);
    await clock.advance(1);
    expect((await answer).status).toBe(500);
    expect(signal.aborted).toBe(true);
  });

  it("is told when the API server goes away", async () => {
    const metrics = createRecordingMetrics();
    const { asked, handlers } = neverAnswering();
    await using peer = await startAdmissionPeer({ handlers, metrics });
    const socket = await peer.open();
    socket.write(post("/slow", review()));
    const { signal } = await asked;
    expect(metrics.value("admission_in_flight_requests")).toBe(1);
    socket.destroy();
    await eventually(() => expect(signal.aborted).toBe(true));
    await eventually(() => {
      expect(metrics.value("admission_in_flight_requests")).toBe(0);
      expect(metrics.value("admission_requests_total", { path: "/slow", code: "aborted" })).toBe(1);
    });
  });
});

describe("the certificate", () => {
  it("tells in a metric when it ends, also after a change, and 0 without one", async () => {
    const metrics = createRecordingMetrics();
    const ends = () => metrics.value("admission_certificate_expiration_timestamp_seconds");
    const nowMs = Date.now();
    const authority = await createAuthority({ nowMs });
    const issue = (validMs: number) =>
      issueServingCertificate({ authority, hosts: ["127.0.0.1"], nowMs, validMs });
    let shown: CertificatePair | undefined;
    await using _peer = await startAdmissionPeer({ handlers: {}, metrics, certificate: () => shown });
    expect(ends()).toBe(0);
    shown = await issue(60_000);
    expect(ends()).toBe(Math.floor((nowMs + 60_000) / 1000));
    shown = await issue(120_000);
    expect(ends()).toBe(Math.floor((nowMs + 120_000) / 1000));
  });
});

describe("what is not a review", () => {
  it("is refused by path, method and format", async () => {
    await using peer = await startAdmissionPeer({ handlers: { "/h": allow } });
    const typed = (type: string): Promise<Answer> =>
      peer.call("/h", { body: review(), headers: { "content-type": type } });
    expect((await peer.call("/other", { body: review() })).status).toBe(404);
    expect((await peer.call("/h/", { body: review() })).status).toBe(404);
    expect((await peer.call("/constructor", { body: review() })).status).toBe(404);
    expect(await peer.call("/h")).toMatchObject({ status: 405, headers: { allow: "POST" } });
    expect((await peer.call("/h", { method: "PUT", body: review() })).status).toBe(405);
    expect((await typed("application/yaml")).status).toBe(415);
    expect((await typed("application/json; charset=utf-8")).status).toBe(200);
    expect((await typed("Application/JSON")).status).toBe(200);
    const gzip = { "content-encoding": "gzip" };
    expect((await peer.call("/h", { body: review(), headers: gzip })).status).toBe(415);
  });

  it("may come without a content type", async () => {
    await using peer = await startAdmissionPeer({ handlers: { "/h": allow } });
    const socket = await peer.open();
    socket.write(post("/h", review()));
    const [head] = (await once(socket, "data")) as [Buffer];
    expect(head.toString()).toMatch(/^HTTP\/1\.1 200 /);
    socket.destroy();
  });

  it("is refused when it is large, whether it says so or not", async () => {
    let asked = 0;
    const handlers: Record<string, AdmissionHandler> = { "/h": () => ({ allowed: asked++ === 0 }) };
    await using peer = await startAdmissionPeer({ handlers, maxBodyBytes: 10_000 });
    const large = review({ object: "x".repeat(10_000) });
    expect((await peer.call("/h", { body: large })).status).toBe(413);
    const chunked = { "transfer-encoding": "chunked" };
    expect((await peer.call("/h", { body: large, headers: chunked })).status).toBe(413);
    expect(asked).toBe(0);
    expect((await peer.call("/h", { body: review({ object: "x".repeat(9000) }) })).status).toBe(200);
  });

  it("is refused at its headers when they announce too much: none of the body is waited for", async () => {
    await using peer = await startAdmissionPeer({ handlers: { "/h": allow }, maxBodyBytes: 10_000 });
    const socket = await peer.open();
    socket.write("POST /h HTTP/1.1\r\nhost: a\r\ncontent-length: 999999999\r\n\r\n{");
    const [head] = (await once(socket, "data")) as [Buffer];
    expect(head.toString()).toMatch(/^HTTP\/1\.1 413 /);
    socket.destroy();
  });

  it("is cut off when it comes before the answer to the one before", async () => {
    const handlers: Record<string, AdmissionHandler> = { "/h": () => new Promise(() => undefined) };
    await using peer = await startAdmissionPeer({ handlers });
    const socket = await peer.open();
    socket.write(post("/h", review()).repeat(2));
    await once(socket.resume(), "close");
    expect(socket.bytesRead).toBe(0);
  });

  it("is counted by paths and codes that are known beforehand, and leaves nothing in the log", async () => {
    const metrics = createRecordingMetrics();
    const lines: string[] = [];
    const write = (message: string, fields: object = {}): void =>
      void lines.push(`${message} ${JSON.stringify(fields)}`);
    const log: Logger = { error: write, warn: write, info: write, debug: write, with: () => log };
    const failing: AdmissionHandler = () => {
      throw new Error("no");
    };
    const handlers = { "/h": allow, "/p": patch, "/fails": failing };
    await using peer = await startAdmissionPeer({ handlers, metrics, log, maxBodyBytes: 10_000 });
    const object = { data: { password: "hunter2" } };
    await peer.call("/h", { body: review({ object }) });
    await peer.call("/p", { body: review({ object }) });
    await peer.call("/fails", { body: review({ object }) });
    await peer.call("/h", { body: `hunter2 ${review({ object })}` });
    await peer.call("/h", { body: review({ object, name: ["hunter2"] }) });
    await peer.call("/made-up-1", { body: "hunter2" });
    await peer.call("/made-up-2");
    const requests = (path: string, code: string): number | undefined =>
      metrics.value("admission_requests_total", { path, code });
    expect([requests("/h", "200"), requests("/h", "400"), requests("/p", "200")]).toEqual([1, 2, 1]);
    expect([requests("/fails", "500"), requests("other", "404")]).toEqual([1, 2]);
    expect(metrics.value("admission_decisions_total", { path: "/h", decision: "allowed" })).toBe(1);
    expect(metrics.value("admission_decisions_total", { path: "/p", decision: "patched" })).toBe(1);
    expect(metrics.value("admission_request_duration_seconds", { path: "/h" })).toBe(3);
    expect(lines.filter((line) => line.includes("hunter2"))).toEqual([]);
  });
});

it("probes answer as those of a webhook do: ok, ready, not ready", async () => {
  let ready = false;
  await using peer = await startAdmissionPeer({ ready: () => ready });
  expect(await peer.call("/healthz")).toMatchObject({ status: 200, body: "ok" });
  expect(await peer.call("/readyz")).toMatchObject({ status: 503, body: "not ready" });
  ready = true;
  expect(await peer.call("/readyz")).toMatchObject({ status: 200, body: "ready" });
  expect(await peer.call("/readyz", { method: "HEAD" })).toMatchObject({ status: 200, body: "" });
  expect((await peer.call("/healthz", { method: "POST" })).status).toBe(405);
  expect((await peer.call("/healthz/x")).status).toBe(404);
});

it("starting refuses an address that says off, and paths that cannot be served", async () => {
  await expect(startAdmissionPeer({ bindAddress: "0" })).rejects.toThrow(RangeError);
  await expect(startAdmissionPeer({ bindAddress: "nowhere" })).rejects.toThrow(RangeError);
  for (const path of ["mutate", "/a?b", "/healthz", "/readyz", "", "/a b", "/a/../b"]) {
    await expect(startAdmissionPeer({ handlers: { [path]: allow } })).rejects.toThrow(RangeError);
  }
});

it("starting rejects when the address is taken", async () => {
  await using first = await startAdmissionPeer();
  await expect(startAdmissionPeer({ bindAddress: `127.0.0.1:${first.port}` })).rejects.toThrow("EADDRINUSE");
});
