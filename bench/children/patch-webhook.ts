/**
 * A process of its own: the admission server that Berth has, with a handler that answers all with one patch. What a webhook
 * costs whoever decides. Runs from source. `patch-webhook.ts ADDRESS CERTIFICATE KEY PATH PATCH`; says that it is `serving` as
 * Berth does, and ends on SIGTERM.
 */
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import type { JsonPatchOperation } from "@berth/kube";
import {
  createMetricsRegistry,
  createSilentLogger,
  startAdmissionServer,
  startProbeServers,
} from "@berth/runtime";

const [bindAddress = "", certificateFile = "", keyFile = "", path = "", patchFile = ""] =
  process.argv.slice(2);
const certificate = {
  certificate: await readFile(certificateFile, "utf8"),
  key: await readFile(keyFile, "utf8"),
};
const patch = JSON.parse(await readFile(patchFile, "utf8")) as readonly JsonPatchOperation[];
const metrics = createMetricsRegistry({ prefix: "berth_" });
const log = createSilentLogger();
await using _server = await startAdmissionServer({
  bindAddress,
  certificate: () => certificate,
  handlers: { [path]: () => ({ allowed: true, patch }) },
  ready: () => true,
  metrics,
  log,
});
await using probes = await startProbeServers({
  metricsBindAddress: "127.0.0.1:0",
  healthBindAddress: "127.0.0.1:0",
  metrics,
  liveChecks: [],
  readyChecks: [],
  log,
});
console.log(JSON.stringify({ message: "serving", metrics: probes.metricsUrl, health: probes.healthUrl }));
// Neither server keeps a process running.
const running = setInterval(() => undefined, 60_000);
await once(process, "SIGTERM");
clearInterval(running);
