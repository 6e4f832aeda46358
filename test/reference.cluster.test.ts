import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fleetKind } from "@berth/fleet";
import { reasonList } from "@berth/placement";
import { createMetricsRegistry, declareApiMetrics } from "@berth/runtime";
import { eventually, sharedTestCluster } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { startBerth } from "../packages/cli/src/composition.ts";

const reference = join(import.meta.dirname, "../docs/reference");

/** The pages are written by `vitest -u` and compared ever after: what the program has, and what the page says. */
describe("docs/reference", () => {
  it("lists every reason with its meaning", async () => {
    const rows = reasonList.map(({ reason, meaning }) => `| \`${reason}\` | ${meaning} |`);
    const page = [
      "# Reasons",
      "",
      "Every change, wait, refusal and fault has one of these; the same word stands in Events, metrics, `berth plan` and",
      "`berth explain`. They are never renamed.",
      "",
      "| reason | meaning |",
      "| --- | --- |",
      ...rows,
      "",
    ];
    await expect(page.join("\n")).toMatchFileSnapshot(join(reference, "reasons.md"));
  });

  it("F4 lists every metric that a running Berth exposes", async () => {
    const cluster = await sharedTestCluster();
    await using folder = await temporaryFolder();
    const metrics = createMetricsRegistry({ processMetrics: false });
    declareApiMetrics(metrics);
    await using berth = await startBerth({
      client: cluster.client,
      metrics,
      labelFolder: { path: folder.path, shown: folder.path, options: { allowReserved: [] } },
      lease: { namespace: "default", name: "berth" },
      fleet: { spec: fleetKind.spec.parse({ mode: "single" }) },
      admission: {
        namespace: "default",
        spec: { mode: "Webhook", bindAddress: "127.0.0.1:0", failurePolicy: "Ignore" },
      },
    });
    await berth.nodes.whenSynced(AbortSignal.timeout(30_000));
    const body = await eventually(async () => {
      const exposed = (await metrics.expose()).body;
      if (!exposed.includes("berth_admission_")) throw new Error("admission is not served yet");
      return exposed;
    });
    const help = [...body.matchAll(/^# HELP (\S+) (.*)\n# TYPE \S+ (\S+)$/gm)];
    const rows = help.map(([, name, text, type]) => `| \`${name}\` | ${type} | ${text} |`).toSorted();
    const page = [
      "# Metrics",
      "",
      "Served at `/metrics` (`--metrics-bind-address`, default `:8080`), beside the usual `process_*` and `nodejs_*`.",
      "No label grows with the number of nodes or pods.",
      "",
      "| name | type | meaning |",
      "| --- | --- | --- |",
      ...rows,
      "",
    ];
    await expect(page.join("\n")).toMatchFileSnapshot(join(reference, "metrics.md"));
  });
});

async function temporaryFolder(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), "berth-reference-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}
