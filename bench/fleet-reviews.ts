/** 200 reviews of Workloads a second, each with 16 new networks: how those of another namespace and the Lease go on meanwhile. */
import { setTimeout as delay } from "node:timers/promises";
import { validatingWebhookConfigurations } from "@berth/kube";
import { eventually, findFreePort } from "@berth/testcluster";
import { receivedAt } from "./audit.ts";
import type { FleetStage } from "./fleet-stage.ts";
import { NAMESPACE, type RunningBerth, startFleetStage } from "./fleet-stage.ts";
import { admissionDocument } from "./gate-stage.ts";
import { type Reviews, reviewsFor } from "./hostile.ts";
import { type Figure, median, quantile } from "./report.ts";

export interface FleetReviewsOptions {
  readonly rounds: number;
  /** Of the flood, and of the same time without it. Seconds. */
  readonly restSeconds: number;
  readonly onProgress: (text: string) => void;
  readonly onServer: (version: string) => void;
}

const FLOOD_EVERY_MS = 5;
const HONEST_EVERY_MS = 100;
const NETWORKS = 16;
const RATIO = 1.2;

export async function benchFleetReviews(options: FleetReviewsOptions): Promise<readonly Figure[]> {
  const { rounds, restSeconds, onProgress, onServer } = options;
  await using stage = await startFleetStage({ runsPods: false, networks: true });
  const { client } = stage.cluster;
  onServer(JSON.parse(await client.read("/version")).gitVersion);
  const address = `127.0.0.1:${await findFreePort()}`;
  const admission = admissionDocument({ bindAddress: address, url: `https://${address}` });
  const args = ["--leader-elect", "--leader-elect-namespace", NAMESPACE];
  await using berth = await stage.startBerth({ quota: false, admission, args });
  const url = await eventually(async () => {
    const { items } = await client.list(validatingWebhookConfigurations);
    const all = items.flatMap(({ webhooks = [] }) => webhooks);
    const { clientConfig } = all.find(({ name }) => name === "vworkload.kb.io") ?? {};
    if (clientConfig?.url === undefined) throw new Error("the webhook is not there");
    return clientConfig.url;
  });
  const phaseMs = restSeconds * 1000;
  const honest = async (): Promise<Phase> => {
    const mark = await stage.cluster.audit.mark();
    const common = { url, phaseMs, everyMs: HONEST_EVERY_MS };
    const reviews = await reviewsFor(berth, { ...common, bodyOf: (at) => review("honest", at, 1) });
    return { reviews, renewals: await renewalsSince(stage, berth, mark) };
  };
  // Without it, the first round would pay for code that is compiled.
  await reviewsFor(berth, { url, phaseMs: 3000, everyMs: 20, bodyOf: (at) => review("warm", at, 1) });
  const runs: { readonly alone: Phase; readonly flooded: Phase; readonly flood: Reviews }[] = [];
  for (let round = 1; round <= rounds; round++) {
    onProgress(`honest reviews, alone and in the flood, round ${round} of ${rounds}`);
    const alone = await honest();
    const bodyOf = (at: number): string => review("flood", round * 1_000_000 + at, NETWORKS);
    const [flooded, flood] = await Promise.all([
      honest(),
      reviewsFor(berth, { url, phaseMs, everyMs: FLOOD_EVERY_MS, bodyOf }),
    ]);
    runs.push({ alone, flooded, flood });
    await delay(2000);
  }
  berth.ended.throwIfAborted();
  const ratio = (of: (phase: Phase) => readonly number[]): readonly number[] =>
    runs.map(({ alone, flooded }) => quantile(of(flooded), 0.95) / quantile(of(alone), 0.95));
  const what = `${1000 / FLOOD_EVERY_MS} reviews a second with ${NETWORKS} networks each`;
  const figure = (id: string, about: string, of: (phase: Phase) => readonly number[]): Figure => {
    const p95 = (phase: "alone" | "flooded"): string =>
      median(runs.map((run) => quantile(of(run[phase]), 0.95))).toFixed(1);
    const floods = runs.map(
      ({ flood: { times, failed, why = "" } }) =>
        `${times.length} reviews, p95 ${quantile(times, 0.95).toFixed(0)} ms, ${failed} not allowed ${why}`,
    );
    return {
      id: `fleet-flood-${id}`,
      what: `${what}: ${about}, p95 / without them`,
      value: median(ratio(of)),
      unit: "x",
      budget: RATIO,
      detail: `${p95("flooded")} ms, without ${p95("alone")} ms; medians of ${rounds} rounds of ${restSeconds} s; the flood: ${floods.join("; ")}`,
      samples: ratio(of),
    };
  };
  return [
    figure("reviews", "reviews of another namespace", ({ reviews }) => reviews.times),
    figure("lease", "from one renewal of a Lease to the next", ({ renewals }) => renewals),
    {
      id: "fleet-flood-refused",
      what: `${what}: reviews of another namespace that were not allowed, with them and without`,
      value: runs.reduce((sum, { alone, flooded }) => sum + alone.reviews.failed + flooded.reviews.failed, 0),
      unit: "requests",
      budget: 0,
      detail:
        runs.flatMap(({ alone, flooded }) => flooded.reviews.why ?? alone.reviews.why ?? [])[0] ?? "none",
    },
  ];
}

interface Phase {
  readonly reviews: Reviews;
  /** Ms between two renewals of one Lease. */
  readonly renewals: readonly number[];
}

async function renewalsSince(
  { cluster }: FleetStage,
  { userAgent }: RunningBerth,
  mark: Awaited<ReturnType<FleetStage["cluster"]["audit"]["mark"]>>,
): Promise<readonly number[]> {
  const resource = "leases.coordination.k8s.io";
  const all = await cluster.audit.entriesSince(mark, { userAgent, resource });
  const writes = all.filter(({ verb, code }) => (verb === "update" || verb === "patch") && code === 200);
  return [...Map.groupBy(writes, ({ name }) => name).values()].flatMap((ofOne) => {
    const times = ofOne.map(receivedAt).toSorted((a, b) => a - b);
    return times.slice(1).map((at, index) => at - (times[index] ?? at));
  });
}

const RUNTIME = {
  resources: { instanceType: "datumcloud/d1-standard-2" },
  sandbox: { containers: [{ name: "web", image: "registry.test/shop/web:1.4.2" }] },
};

/** Of a Workload that is valid, by a user who may use every network. */
function review(namespace: string, at: number, networks: number): string {
  const interfaces = Array.from({ length: networks }, (_, index) => ({
    network: { name: `net-${at}-${index}` },
  }));
  const object = {
    apiVersion: "compute.datumapis.com/v1alpha",
    kind: "Workload",
    metadata: { name: "web", namespace },
    spec: {
      template: { spec: { runtime: RUNTIME, networkInterfaces: interfaces } },
      placements: [
        {
          name: "all",
          cityCodes: ["C10"],
          scaleSettings: { minReplicas: 1, instanceManagementPolicy: "OrderedReady" },
        },
      ],
    },
  };
  const kind = { group: "compute.datumapis.com", version: "v1alpha", kind: "Workload" };
  const resource = { group: "compute.datumapis.com", version: "v1alpha", resource: "workloads" };
  return JSON.stringify({
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request: {
      uid: `${namespace}-${at}`,
      kind,
      resource,
      operation: "CREATE",
      namespace,
      name: "web",
      userInfo: { username: namespace, groups: ["system:masters"] },
      object,
    },
  });
}
