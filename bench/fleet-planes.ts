/**
 * A cell whose Instances ask 20 project planes for quota: what it asks of them at rest, and how soon the others grant while one
 * is frozen.
 */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type Instance, instances } from "@berth/fleet";
import { customResourceDefinitions, namespaces } from "@berth/kube";
import { resourceClaims } from "../packages/fleet/src/api/quota.ts";
import { grantClaims } from "../packages/fleet/src/testing/grant-claims.ts";
import { type BerthOptions, type FleetStage, startFleetStage, templateSpec } from "./fleet-stage.ts";
import { post } from "./gate-stage.ts";
import { isDiscovery, isWatch, type PlaneRequest, type Planes, startPlanes } from "./planes.ts";
import { type Figure, median, quantile } from "./report.ts";

export interface FleetPlanesOptions {
  readonly rounds: number;
  /** A tenth of the time that it rests, twice: once to come to rest, and once to count. Seconds. */
  readonly restSeconds: number;
  readonly onProgress: (text: string) => void;
  readonly onServer: (version: string) => void;
}

const PLANES = 20;
/** Instances that wait in the project that is frozen. */
const WAITING = 19;
/** New Instances of the others in one round, and between two of them, ms. */
const NEW = 95;
const EVERY_MS = 200;
/** An Instance that is not granted within it counts as that. Milliseconds. */
const LATEST_MS = 30_000;
const RATIO = 1.2;
/** The project whose plane freezes. */
const FROZEN = "plane-0";
const CITY = "C10";

export async function benchFleetPlanes(options: FleetPlanesOptions): Promise<readonly Figure[]> {
  const { rounds, restSeconds, onProgress, onServer } = options;
  await using stage = await startFleetStage({ runsPods: false });
  const { client } = stage.cluster;
  onServer(JSON.parse(await client.read("/version")).gitVersion);
  await using planes = await startPlanes(stage.cluster);
  await using _grants = await grantClaims(client, { budget: 1_000_000 });
  for (let at = 0; at < PLANES; at++) {
    const labels = {
      "meta.datumapis.com/upstream-cluster-name": `cluster-plane-${at}`,
      "meta.datumapis.com/upstream-namespace": `plane-${at}`,
    };
    await client.create(namespaces, { metadata: { name: `plane-${at}` } });
    await client.create(namespaces, { metadata: { name: `cell-${at}`, labels } });
  }
  const kubeconfig = join(stage.folder, "planes");
  await writeFile(kubeconfig, stage.cluster.kubeconfig({ server: planes.url }), { mode: 0o600 });
  const spec: BerthOptions["spec"] = { mode: "cell", cell: "bench", quota: { from: "Projects", kubeconfig } };
  await using berth = await stage.startBerth({ quota: false, spec });
  await using seen = await watchGrants(stage);
  onProgress(`an Instance in each of ${PLANES} projects`);
  await grantsOf(
    seen,
    stage,
    Array.from({ length: PLANES }, (_, at) => [`first-${at}`, at] as const),
  );
  const runs: Run[] = [];
  for (let round = 1; round <= rounds; round++) {
    onProgress(`grants, alone and while one plane is frozen, round ${round} of ${rounds}`);
    const alone = await others(seen, stage, `alone-${round}`);
    planes.freeze(FROZEN);
    for (let at = 0; at < WAITING; at++) await stage.raw.send(deployment(`waits-${round}-${at}`, 0));
    // So that all of them have asked.
    await delay(1000);
    const frozen = await others(seen, stage, `frozen-${round}`);
    planes.thaw();
    await grantsOf(seen, stage, [[`last-${round}`, 0]]);
    runs.push({ alone, frozen });
  }
  const served = await atRest(planes, { restSeconds, onProgress });
  const claims = `${resourceClaims.plural}.${resourceClaims.group}`;
  await client.delete(customResourceDefinitions, { name: claims });
  const unserved = await atRest(planes, { restSeconds, onProgress });
  berth.ended.throwIfAborted();
  return [grantFigure(runs), ...restFigures(served, unserved, restSeconds)];
}

interface Run {
  readonly alone: readonly number[];
  readonly frozen: readonly number[];
}

function grantFigure(runs: readonly Run[]): Figure {
  const p95 = (of: keyof Run): readonly number[] => runs.map((run) => quantile(run[of], 0.95));
  const text = (of: keyof Run): string => {
    const all = runs.flatMap((run) => run[of]);
    const late = all.filter((it) => it >= LATEST_MS).length;
    return `p50 ${quantile(all, 0.5).toFixed(0)} ms, p95 ${median(p95(of)).toFixed(0)} ms, ${late} of ${all.length} not within ${LATEST_MS / 1000} s`;
  };
  const ratios = runs.map((run) => quantile(run.frozen, 0.95) / quantile(run.alone, 0.95));
  return {
    id: "fleet-frozen-plane-vs-none",
    what: `one of ${PLANES} project planes is frozen, ${WAITING} Instances wait for it: grants in the others, p95 / without`,
    value: median(ratios),
    unit: "x",
    budget: RATIO,
    detail: `from the creation of a deployment to the gate that is gone; frozen: ${text("frozen")}; without: ${text("alone")}; medians of ${runs.length}`,
    samples: ratios,
  };
}

/** New Instances in all projects but the frozen one, evenly. @returns ms until each was granted. */
function others(seen: Grants, stage: FleetStage, name: string): Promise<readonly number[]> {
  const wanted = Array.from({ length: NEW }, (_, at) => [`${name}-${at}`, 1 + (at % (PLANES - 1))] as const);
  return grantsOf(seen, stage, wanted);
}

async function grantsOf(
  grants: Grants,
  { raw }: FleetStage,
  wanted: readonly (readonly [name: string, project: number])[],
): Promise<readonly number[]> {
  const sentAt = new Map<string, number>();
  const sent: Promise<unknown>[] = [];
  for (const [name, project] of wanted) {
    sentAt.set(`${name}-0`, performance.now());
    sent.push(raw.send(deployment(name, project)));
    await delay(EVERY_MS);
  }
  await Promise.all(sent);
  await grants.wait([...sentAt.keys()], LATEST_MS);
  return [...sentAt].map(([name, at]) => Math.min((grants.grantedAt.get(name) ?? Infinity) - at, LATEST_MS));
}

function deployment(name: string, project: number) {
  const namespace = `cell-${project}`;
  return post(`/apis/compute.datumapis.com/v1alpha/namespaces/${namespace}/workloaddeployments`, {
    apiVersion: "compute.datumapis.com/v1alpha",
    kind: "WorkloadDeployment",
    metadata: { name, namespace },
    spec: {
      workloadRef: { name: "bench", uid: "00000000-0000-0000-0000-000000000000" },
      placementName: "all",
      cityCode: CITY,
      template: { spec: templateSpec("1") },
      scaleSettings: { minReplicas: 1 },
    },
  });
}

interface Grants extends AsyncDisposable {
  /** `performance.now` when the Instance had no gate any more, by name. */
  readonly grantedAt: ReadonlyMap<string, number>;
  /** Resolves once all are there, or after so long. */
  wait(names: readonly string[], timeoutMs: number): Promise<void>;
}

async function watchGrants({ cluster }: FleetStage): Promise<Grants> {
  const stop = new AbortController();
  const { signal } = stop;
  const grantedAt = new Map<string, number>();
  const note = ({ metadata, spec }: Instance): void => {
    const { name = "" } = metadata ?? {};
    const isOpen = (spec?.controller?.schedulingGates ?? []).length === 0;
    if (isOpen && !grantedAt.has(name)) grantedAt.set(name, performance.now());
  };
  const { metadata } = await cluster.client.list(instances);
  const { resourceVersion = "" } = metadata ?? {};
  const stream = await cluster.client.watch(instances, { resourceVersion, signal });
  const read = async (): Promise<void> => {
    for await (const event of stream) if (event.type !== "BOOKMARK") note(event.object);
  };
  const reading = read().catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
  return {
    grantedAt,
    async wait(names, timeoutMs) {
      const deadline = performance.now() + timeoutMs;
      while (performance.now() < deadline && !names.every((it) => grantedAt.has(it))) await delay(50);
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await reading;
    },
  };
}

async function atRest(
  { requests }: Planes,
  { restSeconds, onProgress }: Pick<FleetPlanesOptions, "restSeconds" | "onProgress">,
): Promise<readonly PlaneRequest[]> {
  const ms = restSeconds * 10_000;
  onProgress(`${PLANES} planes come to rest, and rest, ${ms / 1000} s each`);
  await delay(ms);
  const from = requests.length;
  await delay(ms);
  return requests.slice(from);
}

function restFigures(
  served: readonly PlaneRequest[],
  unserved: readonly PlaneRequest[],
  restSeconds: number,
): readonly Figure[] {
  const others = (all: readonly PlaneRequest[]): readonly PlaneRequest[] =>
    all.filter((it) => !isWatch(it) && !isDiscovery(it));
  const mostOfOne = (all: readonly PlaneRequest[]): number => {
    const by = Map.groupBy(all.filter(isDiscovery), ({ project }) => project);
    return Math.max(0, ...[...by.values()].map((it) => it.length));
  };
  const text = (all: readonly PlaneRequest[]): string => {
    const by = Map.groupBy(all, ({ method, path }) => `${method} ${path.replace(/\?.*/, "")}`);
    return [...by].map(([what, { length }]) => `${length} ${what}`).join(", ") || "none";
  };
  const how = `in ${restSeconds * 10} s, after as long without a change; watches that were opened anew included`;
  const what = `${PLANES} project planes at rest`;
  return [
    {
      id: "fleet-planes-discovery",
      what: `${what}: discovery, the most of one plane`,
      value: Math.max(mostOfOne(served), mostOfOne(unserved)),
      unit: "requests",
      budget: 1,
      detail: `${how}: ${text(served)}; once they serve no claims: ${text(unserved)}`,
    },
    {
      id: "fleet-planes-rest",
      what: `${what}: other requests`,
      value: others(served).length,
      unit: "requests",
      budget: 0,
      detail: `once they serve no claims: ${others(unserved).length}`,
    },
  ];
}
