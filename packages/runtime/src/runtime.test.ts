import { connect, nodes, pods, staticCredential } from "@berth/kube";
import { describe, expect, expectTypeOf, it, vi } from "vitest";
import { createLoopComponent, whenAborted } from "./component.ts";
import type { Informer } from "./informer.ts";
import { createSilentLogger } from "./json-log.ts";
import { clusterName } from "./key.ts";
import { createRuntime, type Runtime } from "./runtime.ts";

/** A client that connects when it is first asked, which nothing here does. */
const client = connect({ server: "https://127.0.0.1:1", credential: staticCredential() });

function aRuntime(): Runtime {
  return createRuntime({ name: "tried", client, log: createSilentLogger() });
}

const idle = (name: string) =>
  createLoopComponent({ name, run: (signal: AbortSignal) => whenAborted(signal) });

describe("the informers of a runtime", () => {
  it("are one for each resource, however many ask", () => {
    const runtime = aRuntime();
    const first = runtime.informer(pods, { indexes: { node: ({ spec }) => [spec?.nodeName ?? ""] } });
    runtime.addController({
      name: "a",
      for: nodes,
      owns: [pods],
      reconcile: () => Promise.resolve(undefined),
    });
    expect(runtime.informer(pods)).toBe(first);
    expect(runtime.informer(nodes)).not.toBe(first);
    expect(first.cluster).toBe(runtime.cluster);
    expectTypeOf(runtime.informer(nodes)).toEqualTypeOf<Informer<import("@berth/kube").Node>>();
  });

  it("have the options of the first call, and a later call cannot have others", () => {
    const runtime = aRuntime();
    runtime.informer(pods);
    expect(() => runtime.informer(pods, { metadataOnly: true })).toThrow(RangeError);
  });
});

describe("the run of a runtime", () => {
  it("includes its sets of clusters", async () => {
    const runtime = aRuntime();
    const cells = runtime.clusters("cells");
    cells.join(clusterName("dfw"), { to: client });
    const stop = new AbortController();
    const running = runtime.run(stop.signal);
    await vi.waitFor(() => expect(cells.get(clusterName("dfw"))?.reach.is).toBe("no"));
    stop.abort();
    expect(await running).toEqual({ reason: "stopped", stillRunning: [] });
    expect(cells.list()).toEqual([]);
  });

  it("ends with its signal, whatever it was doing, and happens once", async () => {
    const runtime = aRuntime();
    runtime.informer(nodes);
    const stop = new AbortController();
    const running = runtime.run(stop.signal);
    stop.abort();
    expect(await running).toEqual({ reason: "stopped", stillRunning: [] });
    await expect(runtime.run(stop.signal)).rejects.toThrow(Error);
  });

  it("takes nothing new once it has begun", async () => {
    const runtime = aRuntime();
    await runtime.run(AbortSignal.abort());
    expect(() => runtime.add(idle("late"))).toThrow(Error);
    expect(() => runtime.informer(nodes)).toThrow(Error);
    expect(() => runtime.clusters("late")).toThrow(Error);
    const reconcile = () => Promise.resolve(undefined);
    expect(() => runtime.addController({ name: "late", for: nodes, reconcile })).toThrow(Error);
  });
});
