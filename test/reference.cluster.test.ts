import { globSync } from "node:fs";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fleetKind } from "@berth/fleet";
import { leases } from "@berth/kube";
import { reasonList } from "@berth/placement";
import {
  createMetricsRegistry,
  declareApiMetrics,
  type MetricOptions,
  type MetricsRegistry,
} from "@berth/runtime";
import { eventually, sharedTestCluster } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { type BerthOptions, startBerth } from "../packages/cli/src/composition.ts";
import { dashboard } from "../scripts/dashboard.ts";
import { alertRules, dashboardQueries, metricNamesIn, readingsOf } from "./monitoring.ts";
import { read, root } from "./pages.ts";

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
    const { body, labels } = await exposition();
    const help = [...body.matchAll(/^# HELP ((?:berth|compute)_\S+) (.*)\n# TYPE \S+ (\S+)$/gm)];
    const rows = help.map(([, name = "", text, type]) => {
      const codes = (labels.get(name) ?? []).map((label) => `\`${label}\``);
      return `| \`${name}\` | ${type} | ${codes.join(", ")} | ${text} |`;
    });
    const page = [
      "# Metrics",
      "",
      "Served at `/metrics` (`--metrics-bind-address`, default `:8080`), beside the usual `process_*` and `nodejs_*`.",
      "No label grows with the number of nodes or pods. [Watch Berth](../guides/watch-berth.md) has alerts and a dashboard.",
      "",
      "| name | type | labels | meaning |",
      "| --- | --- | --- | --- |",
      ...rows.toSorted(),
      "",
    ];
    await expect(page.join("\n")).toMatchFileSnapshot(join(reference, "metrics.md"));
  });
});

describe("monitoring", () => {
  it("has the dashboard of scripts/dashboard.ts", async () => {
    await expect(dashboard()).toMatchFileSnapshot(join(root, "monitoring/dashboard.json"));
  });

  it.each([...alertRules.map(({ alert: of, expr }) => ({ of, expr })), ...dashboardQueries])(
    "$of reads metrics that a running Berth exposes, by labels that they have: $expr",
    async ({ expr }) => {
      const { labels } = await exposition();
      const readings = readingsOf(expr);
      expect(readings).not.toEqual([]);
      for (const { metric, matched } of readings) {
        const known = labels.get(metric) ?? labels.get(metric.replace(/_bucket$/, ""));
        expect({ metric, known: known && [...known, "job"] }).toEqual({
          metric,
          known: expect.arrayContaining([...matched]) as unknown,
        });
      }
    },
  );

  it("shows every metric of Berth on the dashboard", async () => {
    const { labels } = await exposition();
    const shown = dashboardQueries
      .flatMap(({ expr }) => readingsOf(expr))
      .map(({ metric }) => metric.replace(/_bucket$/, ""));
    const ours = [...labels.keys()].filter((name) => /^(?:berth|compute)_/.test(name));
    expect(new Set(ours).difference(new Set(shown))).toEqual(new Set());
  });

  it("is all that pages tell of", async () => {
    const { labels } = await exposition();
    const pages = globSync(["README.md", "docs/**/*.md", "packages/**/*.md", "bench/*.md"], {
      cwd: root,
      exclude: (path) => /node_modules|docs\/api/.test(path),
    });
    const told = pages.flatMap((page) => metricNamesIn(read(page)).map((name) => ({ page, name })));
    expect(told).not.toEqual([]);
    expect(told.filter(({ name }) => !labels.has(name))).toEqual([]);
  });
});

interface Exposition {
  /** The text that Prometheus reads. */
  readonly body: string;
  /** The labels of each metric, by its name; those of its target come with them. */
  readonly labels: ReadonlyMap<string, readonly string[]>;
}

let exposed: Promise<Exposition> | undefined;
/** Of one Berth with all its capabilities, and of a hub. */
const exposition = (): Promise<Exposition> => (exposed ??= exposeBoth());

async function exposeBoth(): Promise<Exposition> {
  const single = await expose({
    fleet: { spec: fleetKind.spec.parse({ mode: "single" }) },
    admission: {
      namespace: "default",
      spec: { mode: "Webhook", bindAddress: "127.0.0.1:0", failurePolicy: "Ignore" },
    },
  });
  const { client } = await sharedTestCluster();
  // A hub that never leads writes nothing to the cluster that other tests have.
  const lease = { name: "compute-management", namespace: "default" };
  const renewTime = new Date().toISOString().replace("Z", "000Z");
  const spec = { holderIdentity: "another", leaseDurationSeconds: 3600, renewTime };
  await client.create(leases, { metadata: lease, spec });
  const hub = await expose({
    fleet: { spec: fleetKind.spec.parse({ mode: "management", hub: "self", projects: "self" }) },
    namespace: "default",
  });
  await client.delete(leases, lease);
  const more = hub.body.split(/^(?=# HELP )/m).filter((text) => !single.labels.has(text.split(" ")[2] ?? ""));
  return { body: [single.body, ...more].join(""), labels: new Map([...hub.labels, ...single.labels]) };
}

async function expose(options: Pick<BerthOptions, "fleet" | "admission" | "namespace">): Promise<Exposition> {
  const cluster = await sharedTestCluster();
  await using folder = await mkdtempDisposable(join(tmpdir(), "berth-reference-"));
  const registry = createMetricsRegistry({ prefix: "berth_" });
  // The registry declares one itself.
  const declared = new Map<string, readonly string[]>([["berth_metrics_collect_failures_total", ["metric"]]]);
  const noted = <O extends MetricOptions<string>>(options: O): O => {
    declared.set(options.name, options.labels ?? []);
    return options;
  };
  const metrics: MetricsRegistry = {
    prefix: registry.prefix,
    counter: (options) => registry.counter(noted(options)),
    gauge: (options) => registry.gauge(noted(options)),
    histogram: (options) => registry.histogram(noted(options)),
    expose: () => registry.expose(),
  };
  declareApiMetrics(metrics);
  await using berth = await startBerth({
    client: cluster.client,
    metrics,
    labelFolder: { path: folder.path, shown: folder.path, options: { allowReserved: [] } },
    lease: { namespace: "default", name: "berth" },
    ...options,
  });
  await berth.nodes.whenSynced(AbortSignal.timeout(30_000));
  return await eventually(async () => {
    const { body } = await registry.expose();
    if (options.admission && !body.includes("berth_admission_requests_total"))
      throw new Error("admission is not served yet");
    const names = [...body.matchAll(/^# TYPE (\S+)/gm)].map(([, name = ""]) => name);
    return { body, labels: new Map(names.map((name) => [name, declared.get(name) ?? []])) };
  });
}
