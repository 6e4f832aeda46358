import { ApiError, type ApiFailure } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { resourceClaims } from "../api/quota.ts";
import { aClaim } from "../instance/testing/views.ts";
import { ClaimPlane } from "./plane.ts";

const ref = { project: "web", namespace: "default", name: "instance-w-us-dfw-0" };
const claim = aClaim();
const { signal } = new AbortController();
const named = { namespace: "default", name: "instance-w-us-dfw-0" };
const bounded = { signal, timeoutMs: 5000 };
const read = (value: object) => ({ is: "read", project: "web", claim: value });

type Verb = "get" | "create" | "delete" | "read";

/** A service that answers each verb so, one answer after the other; the last one stays. */
function planeWith(answers: Partial<Record<Verb, readonly (ApiFailure | object)[]>>) {
  const sent: unknown[] = [];
  let downs = 0;
  const answer = (verb: Verb) => {
    const left = [...(answers[verb] ?? [claim])];
    return (...args: readonly unknown[]): Promise<never> => {
      sent.push([verb, ...args.filter((it) => it !== resourceClaims)]);
      const next = left.length > 1 ? left.shift() : left[0];
      return next !== undefined && "kind" in next
        ? Promise.reject(new ApiError(next as ApiFailure, { verb: "get", resource: "resourceclaims" }))
        : Promise.resolve(next as never);
    };
  };
  const client = {
    get: answer("get"),
    create: answer("create"),
    delete: answer("delete"),
    read: answer("read"),
  };
  const plane = new ClaimPlane(client, () => (downs += 1));
  return { plane, sent, downs: () => downs };
}

const NOT_FOUND = { kind: "notFound" } as const;
const DOWN: readonly ApiFailure[] = [
  { kind: "unauthorized" },
  { kind: "serverError", status: 503 },
  { kind: "timeout", afterMs: 5000 },
  { kind: "unreachable" },
  { kind: "tooManyRequests", causes: [] },
  { kind: "conflict", causes: [] },
];
const REFUSED: readonly ApiFailure[] = [{ kind: "forbidden" }, { kind: "invalid", causes: [] }];

describe("8.4 the answers of the quota service", () => {
  it("to a read: the claim, or that there is none", async () => {
    const { plane, sent } = planeWith({ get: [claim, NOT_FOUND] });
    expect(await plane.read(ref, signal)).toEqual(read({ is: "there", value: claim }));
    expect(await plane.read(ref, signal)).toEqual(read({ is: "none" }));
    expect(sent).toEqual([
      ["get", named, bounded],
      ["get", named, bounded],
    ]);
  });

  it.each(DOWN)(
    "$kind of a read or a creation is QuotaBackendUnavailable, and an outage",
    async (failure) => {
      for (const verb of ["read", "create"] as const) {
        const { plane, downs } = planeWith({ get: [failure], create: [failure] });
        const answer = verb === "read" ? plane.read(ref, signal) : plane.create(ref, claim, signal);
        const { outage } = plane;
        expect(outage).toBeUndefined();
        const message = new ApiError(failure, { verb: "get", resource: "resourceclaims" }).message;
        expect(await answer).toEqual({ is: "failed", reason: "QuotaBackendUnavailable", message });
        expect([plane.outage, downs()]).toEqual([{ message, isConfirmed: false }, 1]);
      }
    },
  );

  it.each(REFUSED)("$kind is QuotaMisconfigured, and no outage", async (failure) => {
    const { plane, downs } = planeWith({ get: [failure], create: [failure], delete: [failure] });
    for (const answer of [
      await plane.create(ref, claim, signal),
      await plane.read(ref, signal),
      await plane.delete(ref, claim, signal),
    ])
      expect(answer).toMatchObject({ is: "failed", reason: "QuotaMisconfigured" });
    expect([plane.outage, downs()]).toEqual([undefined, 0]);
  });

  it.each<[string, ApiFailure | object, string]>([
    ["is served", {}, "QuotaNamespaceNotFound"],
    ["may not be seen", { kind: "forbidden" }, "QuotaNamespaceNotFound"],
    ["does not answer", { kind: "unreachable" }, "QuotaNamespaceNotFound"],
    ["is not there", NOT_FOUND, "QuotaProjectNotFound"],
  ])("404 of a creation in a project that %s", async (_, served, reason) => {
    const { plane, downs } = planeWith({ create: [NOT_FOUND], read: [served] });
    expect(await plane.create(ref, claim, signal)).toMatchObject({ is: "failed", reason });
    expect([plane.outage, downs()]).toEqual([undefined, 0]);
  });

  it("409 of a creation: the claim of that name", async () => {
    const { plane, sent } = planeWith({ create: [{ kind: "alreadyExists" }] });
    expect(await plane.create(ref, claim, signal)).toEqual(read({ is: "there", value: claim }));
    expect(sent).toEqual([
      ["create", claim, { ...bounded, namespace: "default" }],
      ["get", named, bounded],
    ]);
  });

  it("to a deletion: the claim while it ends, and of this uid alone", async () => {
    const { plane, sent } = planeWith({});
    expect(await plane.delete(ref, claim, signal)).toMatchObject(
      read({
        is: "there",
        value: { metadata: { uid: "claim-1", deletionTimestamp: "1970-01-01T00:00:00Z" } },
      }),
    );
    await plane.delete(ref, {}, signal);
    expect(sent).toEqual([
      ["delete", named, { ...bounded, preconditions: { uid: "claim-1" } }],
      ["delete", named, bounded],
    ]);
  });

  it.each<ApiFailure>([NOT_FOUND, { kind: "uidMismatch" }, { kind: "conflict", causes: [] }])(
    "$kind of a deletion: it is gone",
    async (failure) => {
      const { plane } = planeWith({ delete: [failure] });
      expect(await plane.delete(ref, claim, signal)).toEqual(read({ is: "none" }));
    },
  );

  it("rejects when it is stopped, which is no outage", async () => {
    const { plane } = planeWith({ get: [{ kind: "aborted" }] });
    await expect(plane.read(ref, AbortSignal.abort())).rejects.toThrow(/resourceclaims/);
    expect(plane.outage).toBeUndefined();
  });
});

describe("an outage", () => {
  it("is confirmed by a probe that fails, and ends with one that does not", async () => {
    const { plane, sent } = planeWith({
      get: [{ kind: "unreachable" }],
      read: [{ kind: "serverError", status: 503 }, { kind: "forbidden" }, NOT_FOUND],
    });
    await plane.read(ref, signal);
    expect(plane.outage?.isConfirmed).toBe(false);
    await plane.probe(signal);
    expect(sent.at(-1)).toEqual(["read", "/apis/quota.miloapis.com/v1alpha1", bounded]);
    expect(plane.outage).toEqual({ isConfirmed: true, message: expect.stringContaining("503") });
    await plane.read(ref, signal);
    expect(plane.outage?.isConfirmed).toBe(true);
    for (const _answer of ["403", "404"]) {
      await plane.probe(signal);
      expect(plane.outage).toBeUndefined();
      await plane.read(ref, signal);
      expect(plane.outage).toBeDefined();
    }
  });

  it("ends with any request that is answered", async () => {
    const { plane } = planeWith({ get: [{ kind: "unreachable" }, claim] });
    await plane.read(ref, signal);
    await plane.read(ref, signal);
    expect(plane.outage).toBeUndefined();
  });

  it("does not begin with a probe that was stopped", async () => {
    const { plane } = planeWith({ read: [{ kind: "aborted" }] });
    await plane.probe(AbortSignal.abort());
    expect(plane.outage).toBeUndefined();
  });
});

describe("a trial of a claim", () => {
  it("stores nothing", async () => {
    const { plane, sent } = planeWith({});
    expect(await plane.tryCreate(ref, claim, signal)).toBeUndefined();
    expect(sent).toEqual([["create", claim, { ...bounded, namespace: "default", dryRun: true }]]);
  });

  it.each<[ApiFailure, boolean]>([
    [{ kind: "forbidden" }, true],
    [NOT_FOUND, true],
    [{ kind: "unreachable" }, true],
    [{ kind: "invalid", causes: [] }, false],
    [{ kind: "alreadyExists" }, false],
  ])("%o says why no claim could be made: %s", async (failure, isRefused) => {
    const { plane } = planeWith({ create: [failure] });
    const refusal = await plane.tryCreate(ref, claim, signal);
    expect(refusal?.includes("resourceclaims") ?? false).toBe(isRefused);
  });
});
