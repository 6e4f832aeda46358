import { nodes } from "@berth/kube";
import { describe, expect, it } from "vitest";
import type { ObservedRequest } from "../fault/interceptor.ts";
import { parseRequestTarget } from "../fault/request-target.ts";
import { aNode } from "../node-builder.ts";
import { formatPoint, nameOfEvent, nameOfRequest, nameOfVersion, Occurrences, type Point } from "./point.ts";

const toLocal = (name: string): string => (name.startsWith("run-7-") ? name.slice(6) : "");

function request(method: string, path: string): ObservedRequest {
  const { signal } = new AbortController();
  return { ...parseRequestTarget(method, path), sequence: 1, userAgent: "", at: 0, signal };
}

describe("the name of a perturbation", () => {
  it.each([
    ["PATCH", "/api/v1/nodes/run-7-n1?fieldManager=x", "patch nodes n1"],
    ["PATCH", "/api/v1/nodes/run-7-n1/status", "patch nodes/status n1"],
    ["GET", "/api/v1/nodes?watch=true", "watch nodes"],
    ["POST", "/apis/events.k8s.io/v1/namespaces/default/events", "create events.events.k8s.io"],
    ["PATCH", "/apis/events.k8s.io/v1/namespaces/default/events/x.17a4", "patch events.events.k8s.io"],
    ["PATCH", "/api/v1/namespaces/default/events/run-7-n1.17a4", "patch events n1"],
    ["GET", "/version?x=1", "get /version"],
  ])("says of %s %s: %s", (method, path, name) => {
    expect(nameOfRequest(request(method, path), toLocal)).toBe(name);
  });

  it("is the same in every run", () => {
    const object = aNode("run-7-n1").build();
    const watch = request("GET", "/api/v1/nodes?watch=true");
    const event = { sequence: 1, request: watch, objectName: "run-7-n1", type: "MODIFIED", object };
    expect(nameOfEvent(event, toLocal)).toBe("MODIFIED nodes n1");
    const made = { type: "ADDED", resource: nodes, object } as const;
    const version = { ...made, before: undefined, step: "start", at: 0 };
    expect(nameOfVersion(version, toLocal)).toBe("ADDED nodes n1");
  });

  it("tells the second from the first", () => {
    const occurrences = new Occurrences();
    expect(["a", "b", "a"].map((name) => occurrences.next(name))).toEqual(["a #1", "b #1", "a #2"]);
  });

  it.each<[Point, string]>([
    [{ pattern: "kill-after", request: "patch nodes n1 #2" }, "kill-after patch nodes n1 #2"],
    [{ pattern: "paused", event: "DELETED nodes n1 #1" }, "paused DELETED nodes n1 #1"],
    [{ pattern: "stale", step: "goes", version: "nothing" }, "stale after goes as of nothing"],
  ])("reads as what is done: %j", (point, text) => {
    expect(formatPoint(point)).toBe(text);
  });
});
