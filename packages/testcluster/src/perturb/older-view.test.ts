import { type KubeObject, type Pod, pods } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { createConditions } from "../fault/conditions.ts";
import type { ObservedRequest, Reply } from "../fault/interceptor.ts";
import { parseRequestTarget } from "../fault/request-target.ts";
import type { Version } from "./history.ts";
import { createOlderView, type OlderView, type OlderViewOptions } from "./older-view.ts";

const PATH = "/api/v1/pods";
const UNSCHEDULED = "fieldSelector=spec.nodeName%3D,status.phase%3DPending";
const WATCH = "watch=true&sendInitialEvents=true";

function pod(name: string, node?: string, labels: Readonly<Record<string, string>> = {}): Pod {
  const spec = { containers: [], ...(node !== undefined && { nodeName: node }) };
  const metadata = { name, namespace: "default", labels, resourceVersion: "1" };
  return { apiVersion: "v1", kind: "Pod", metadata, spec, status: { phase: "Pending" } };
}

/** A history of pods, in which each version of a name follows the one before. */
function logOf(...objects: readonly Pod[]): OlderViewOptions["log"] {
  const versions = objects.map((object, at): Version => {
    const before = objects.slice(0, at).findLast(({ metadata }) => metadata?.name === object.metadata?.name);
    const type = before === undefined ? "ADDED" : "MODIFIED";
    return { type, resource: pods, object, before, step: "start", at };
  });
  const viewOf = (_resource: unknown, count: number): ReadonlyMap<string, KubeObject> =>
    new Map(versions.slice(0, count).map(({ object }) => [object.metadata?.name ?? "", object]));
  return {
    versions,
    viewOf,
    present: (resource) => [...viewOf(resource, versions.length).values()],
    resourceVersionOf: (_resource, count) => String(count),
    conditions: createConditions(),
  };
}

function viewAsOf(count: number, log: OlderViewOptions["log"]): OlderView {
  const isSentinel: OlderViewOptions["isSentinel"] = (_resource, { metadata }) =>
    metadata?.name === "sentinel";
  return createOlderView({ log, resources: [pods], count, isSentinel });
}

/** What the view answers; `cut` when it hands the request on to the server. */
async function ask(view: OlderView, query: string, signal = new AbortController().signal): Promise<Reply> {
  const target = parseRequestTarget("GET", `${PATH}?${query}`);
  const request: ObservedRequest = { ...target, sequence: 1, userAgent: "", at: 0, signal };
  const forwarded: Reply = { kind: "cut", scope: "stream" };
  return (await view.request?.(request, () => Promise.resolve(forwarded))) ?? forwarded;
}

/** So many lines of a watch: `ADDED p1`, or `BOOKMARK` where no object is named. */
async function told(view: OlderView, query: string, lines: number): Promise<readonly string[]> {
  const stop = new AbortController();
  const reply = await ask(view, query, stop.signal);
  const found: string[] = [];
  if (reply.kind !== "forwarded") return found;
  for await (const line of reply.body) {
    const { type, object } = JSON.parse(String(line)) as { type: string; object: KubeObject };
    found.push(`${type} ${object.metadata?.name ?? ""}`.trim());
    if (found.length === lines) stop.abort();
  }
  return found;
}

describe("an older view", () => {
  const log = logOf(pod("p1"), pod("p2", "n1"), pod("p1", "n1"), pod("p3"));

  it("lists what there was, and the sentinel as it is", async () => {
    const reply = await ask(viewAsOf(2, logOf(pod("p1"), pod("p2"), pod("sentinel"))), "");
    const body = JSON.parse(reply.kind === "answer" ? reply.body : "{}") as { items: readonly Pod[] };
    expect(body.items.map(({ metadata }) => metadata?.name)).toEqual(["p1", "p2", "sentinel"]);
  });

  it("tells a watch by fields only of objects that have them, one that is not set being empty", async () => {
    expect(await told(viewAsOf(2, log), `${WATCH}&${UNSCHEDULED}`, 2)).toEqual(["ADDED p1", "BOOKMARK"]);
    const onNode = `${WATCH}&fieldSelector=spec.nodeName%3Dn1`;
    expect(await told(viewAsOf(2, log), onNode, 2)).toEqual(["ADDED p2", "BOOKMARK"]);
    const running = `${WATCH}&fieldSelector=status.phase%3DRunning`;
    expect(await told(viewAsOf(2, log), running, 1)).toEqual(["BOOKMARK"]);
  });

  it("says that an object is gone when it leaves the part that is watched, once the server has caught up", async () => {
    const view = viewAsOf(2, log);
    view.release();
    // What is asked for after that is answered by the server itself.
    expect((await ask(view, `${WATCH}&${UNSCHEDULED}`)).kind).toBe("cut");
    const before = viewAsOf(2, log);
    const lines = told(before, `${WATCH}&${UNSCHEDULED}`, 4);
    before.release();
    expect(await lines).toEqual(["ADDED p1", "BOOKMARK", "DELETED p1", "ADDED p3"]);
  });

  it("tells by labels too, and refuses a selector that it does not understand", async () => {
    const labelled = logOf(pod("p1", undefined, { app: "a" }), pod("p2", undefined, { app: "b" }));
    const labelledB = `${WATCH}&labelSelector=app%3Db`;
    expect(await told(viewAsOf(2, labelled), labelledB, 2)).toEqual(["ADDED p2", "BOOKMARK"]);
    const labelledAtAll = logOf(pod("p1"), pod("p2", undefined, { app: "b" }));
    expect(await told(viewAsOf(2, labelledAtAll), `${WATCH}&labelSelector=app`, 2)).toEqual([
      "ADDED p2",
      "BOOKMARK",
    ]);
    for (const selector of ["labelSelector=app%21%3Da", "labelSelector=app%20in%20%28a%29"])
      await expect(ask(viewAsOf(2, labelled), `${WATCH}&${selector}`)).rejects.toThrow(RangeError);
  });

  it("tells of objects whose field has another value, or any", async () => {
    const bound = `${WATCH}&fieldSelector=spec.nodeName%21%3D`;
    const placed = logOf(pod("p1", "n1"), pod("p2"), pod("p3", "n2"));
    expect(await told(viewAsOf(3, placed), bound, 3)).toEqual(["ADDED p1", "ADDED p3", "BOOKMARK"]);
    expect(await told(viewAsOf(3, placed), `${bound}n1`, 3)).toEqual(["ADDED p2", "ADDED p3", "BOOKMARK"]);
  });

  it("leaves a list by fields to the server: nobody keeps the answer", async () => {
    expect((await ask(viewAsOf(2, log), UNSCHEDULED)).kind).toBe("cut");
  });
});
