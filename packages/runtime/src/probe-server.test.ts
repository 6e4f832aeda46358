import { once } from "node:events";
import { connect } from "node:net";
import { describe, expect, it } from "vitest";
import { parseBindAddress } from "./bind-address.ts";
import type { HealthCheck } from "./health-checks.ts";
import { createSilentLogger } from "./json-log.ts";
import { type ProbeServerOptions, type ProbeServers, startProbeServers } from "./probe-server.ts";
import { createMetricsRegistry } from "./prometheus.ts";

const silent = createSilentLogger();

function start(options: Partial<ProbeServerOptions> = {}): Promise<ProbeServers> {
  return startProbeServers({
    metricsBindAddress: "127.0.0.1:0",
    healthBindAddress: "127.0.0.1:0",
    metrics: createMetricsRegistry({ processMetrics: false }),
    liveChecks: [],
    readyChecks: [],
    log: silent,
    ...options,
  });
}

async function get(url: string, init: RequestInit = {}): Promise<{ status: number; body: string }> {
  const response = await fetch(url, init);
  return { status: response.status, body: await response.text() };
}

const unsynced: HealthCheck = { name: "caches", check: () => "nodes\nnot synced yet" };

describe("startProbeServers", () => {
  it("S-6 answers kubelet while another address holds all the connections that it gets", async () => {
    await using servers = await start();
    const url = new URL(servers.healthUrl ?? "");
    using held = new DisposableStack();
    let open = 0;
    for (let at = 0; at < 128; at++) {
      const socket = connect({ host: url.hostname, port: Number(url.port), localAddress: "127.0.0.2" });
      held.defer(() => void socket.destroy());
      open += 1;
      socket.on("error", () => undefined).on("close", () => (open -= 1));
      await once(socket, "connect");
    }
    await expect.poll(() => open).toBe(64);
    expect(await get(`${url.origin}/healthz`)).toEqual({ status: 200, body: "ok" });
  });

  it("says ok, and each check with its reason when asked or when one fails; I-3 notes when asked", async () => {
    const note = (): string => "their CRD\nis away";
    const readyChecks: HealthCheck[] = [{ name: "gates", check: () => undefined, note }];
    await using servers = await start({ readyChecks });
    const ready = `${servers.healthUrl}/readyz`;
    expect(await get(ready)).toEqual({ status: 200, body: "ok" });
    const gates = "[+]ping ok\n[+]gates ok: their CRD is away\n";
    expect(await get(`${ready}?verbose`)).toEqual({ status: 200, body: `${gates}readyz check passed\n` });
    readyChecks.push(unsynced);
    const failed = `${gates}[-]caches: nodes not synced yet\nreadyz check failed\n`;
    expect(await get(ready)).toEqual({ status: 500, body: failed });
    for (const other of ["livez", "healthz"])
      expect((await get(`${servers.healthUrl}/${other}`)).status).toBe(200);
  });

  it("runs one check by its name and leaves out the excluded", async () => {
    const broken: HealthCheck = {
      name: "broken",
      check: () => {
        throw new Error("no answer");
      },
    };
    await using servers = await start({ readyChecks: [unsynced, broken] });
    const ready = `${servers.healthUrl}/readyz`;
    expect(await get(`${ready}/caches`)).toEqual({ status: 500, body: "[-]caches: nodes not synced yet\n" });
    expect((await get(`${ready}/broken`)).body).toContain("no answer");
    expect((await get(`${ready}/ping`)).status).toBe(200);
    expect((await get(`${ready}/nosuch`)).status).toBe(404);
    expect((await get(`${ready}?exclude=caches&exclude=broken`)).status).toBe(200);
  });

  it("exposes metrics on their own address only", async () => {
    const metrics = createMetricsRegistry({ processMetrics: false });
    metrics.counter({ name: "t_total", help: "h" }).inc();
    await using servers = await start({ metrics });
    expect((await get(`${servers.metricsUrl}/metrics`)).body).toContain("t_total 1");
    expect((await get(`${servers.healthUrl}/metrics`)).status).toBe(404);
    expect((await get(`${servers.metricsUrl}/readyz`)).status).toBe(404);
  });

  it("is off where the address is 0", async () => {
    await using servers = await start({ metricsBindAddress: "0" });
    expect(servers.metricsUrl).toBeUndefined();
    expect((await get(`${servers.healthUrl}/healthz`)).status).toBe(200);
  });

  it("answers HEAD without a body, and refuses other methods, other paths and long headers", async () => {
    await using servers = await start();
    const health = `${servers.healthUrl}/healthz`;
    expect(await get(health, { method: "HEAD" })).toEqual({ status: 200, body: "" });
    expect((await get(health, { method: "POST", body: "x" })).status).toBe(405);
    expect((await get(`${servers.healthUrl}/constructor`)).status).toBe(404);
    expect((await get(`${servers.healthUrl}/readyz/a/b`)).status).toBe(404);
    expect((await get(health, { headers: { "x-long": "y".repeat(10_000) } })).status).toBe(431);
  });

  it("cuts off a client that does not finish its request", async () => {
    await using servers = await start({ requestTimeoutMs: 100 });
    const socket = connect(Number(new URL(servers.healthUrl ?? "").port), "127.0.0.1");
    socket.write("GET /healthz HTTP/1.1\r\n");
    socket.resume();
    await once(socket, "close");
    expect(socket.destroyed).toBe(true);
  });

  // A machine that stands still takes longer; a client that is waited for makes it longer each time.
  it("stops within half a second though a client stays connected, and frees its port", {
    retry: 3,
  }, async () => {
    const servers = await start({ requestTimeoutMs: 60_000 });
    const port = Number(new URL(servers.healthUrl ?? "").port);
    const socket = connect(port, "127.0.0.1");
    await once(socket, "connect");
    socket.write("GET /healthz HTTP/1.1\r\n");
    const startedAt = performance.now();
    await servers[Symbol.asyncDispose]();
    expect(performance.now() - startedAt).toBeLessThan(500);
    socket.destroy();
    await using again = await start({
      healthBindAddress: `127.0.0.1:${port}`,
      metricsBindAddress: `127.0.0.1:${port}`,
    });
    expect((await get(`${again.healthUrl}/metrics`)).status).toBe(200);
    expect((await get(`${again.metricsUrl}/healthz`)).status).toBe(200);
  });

  it("rejects, leaving nothing behind, when one address is taken", async () => {
    await using first = await start();
    const taken = (first.healthUrl ?? "").replace("http://", "");
    await expect(start({ healthBindAddress: taken })).rejects.toThrow("EADDRINUSE");
  });
});

it.each([
  [":8080", { port: 8080 }],
  ["127.0.0.1:0", { host: "127.0.0.1", port: 0 }],
  ["[::1]:8080", { host: "::1", port: 8080 }],
  ["localhost:1", { host: "localhost", port: 1 }],
  ["0", undefined],
])("parseBindAddress reads %s", (text, address) => expect(parseBindAddress(text)).toEqual(address));

it.each(["", "8080", ":", ":65536", "::1:8080", "http://x:1", "[::1]", ":-1", "a b:1"])(
  "parseBindAddress refuses %j",
  (text) => expect(() => parseBindAddress(text)).toThrow(RangeError),
);
