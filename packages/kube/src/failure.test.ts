import { describe, expect, it } from "vitest";
import { ApiError, describeRequest, isApiError, type RequestInfo } from "./failure.ts";

describe("ApiError", () => {
  it.each<[RequestInfo, string]>([
    [{ verb: "patch", resource: "nodes", name: "n1" }, 'patch nodes "n1"'],
    [{ verb: "list", resource: "pods", namespace: "kube-system" }, 'list pods in "kube-system"'],
    [
      { verb: "update", resource: "leases.coordination.k8s.io", namespace: "berth", name: "l" },
      'update leases.coordination.k8s.io "l" in "berth"',
    ],
    [
      { verb: "create", resource: "pods", subresource: "eviction", namespace: "a", name: "p" },
      'create pods/eviction "p" in "a"',
    ],
    [{ verb: "get", resource: "/version" }, "get /version"],
    [{ verb: "get", resource: "pods", name: "p", under: "/a/b" }, 'get pods "p" under /a/b'],
  ])("names the request %j", (request, text) => {
    expect(describeRequest(request)).toBe(text);
    expect(new ApiError({ kind: "forbidden" }, request).message.startsWith(`${text}: `)).toBe(true);
  });

  it("says the number where it is the only thing known, and nobody else's number", () => {
    const request: RequestInfo = { verb: "get", resource: "nodes", name: "n1" };
    expect(new ApiError({ kind: "serverError", status: 502 }, request).message).toContain("HTTP 502");
    expect(new ApiError({ kind: "timeout", afterMs: 250 }, request).message).toContain("250 ms");
    expect(new ApiError({ kind: "notFound" }, request).message).not.toMatch(/[0-9]{3}/);
  });

  it("tells a field that another manager owns from a version that is old", () => {
    const of = (reason: string): string =>
      new ApiError({ kind: "conflict", causes: [{ reason }] }, { verb: "patch", resource: "nodes" }).message;
    expect(of("FieldManagerConflict")).toBe("patch nodes: another field manager owns fields of it");
    expect(of("Other")).toBe("patch nodes: another writer changed it meanwhile");
  });

  it("is asked for by kind", () => {
    const error = new ApiError({ kind: "expired" }, { verb: "list", resource: "pods" });
    expect(isApiError(error)).toBe(true);
    expect(isApiError(error, "notFound", "expired")).toBe(true);
    expect(isApiError(error, "notFound")).toBe(false);
    expect(isApiError(new Error("expired"))).toBe(false);
    expect(isApiError(undefined)).toBe(false);
  });

  it.each<[ApiError["failure"], string]>([
    [{ kind: "conflict", causes: [] }, "refresh"],
    [{ kind: "uidMismatch" }, "refresh"],
    [{ kind: "unreachable" }, "backoff"],
    [{ kind: "credential" }, "backoff"],
    [{ kind: "forbidden" }, "backoff"],
    [{ kind: "aborted" }, "never"],
  ])("tells what may be done about %j: %s", (failure, retry) => {
    expect(new ApiError(failure, { verb: "get", resource: "nodes" }).retry).toBe(retry);
  });
});
