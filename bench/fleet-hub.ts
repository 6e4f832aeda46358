/**
 * A hub and its cells: how soon a deployment is in its cell and a status at home, what that costs, and what a cell that is
 * away does to both. The benchmark plays Berth in the cells.
 */
import { cpus } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { type Workload, type WorkloadDeployment, workloadDeployments, workloads } from "@berth/fleet";
import { type KubeClient, namespaces } from "@berth/kube";
import { startTestFleet, type TestCluster, type TestFleet } from "@berth/testcluster";
import { playCells, statusOf } from "../packages/fleet/src/testing/cell-actor.ts";
import { whileAway, whileOneIsFrozen } from "./fleet-hub-away.ts";
import { COMPUTE, isWrite, NAMESPACE, templateSpec, textOf } from "./fleet-stage.ts";
import { post } from "./gate-stage.ts";
import { addCell, openHubStage, prepare, readyOf, waitForCells } from "./hub-stage.ts";
import {
  type Bench,
  type Cells,
  cityOf,
  create,
  deploymentOf,
  ENGAGED_MS,
  EVERY_MS,
  everyTenth,
  type FleetHubOptions,
  LATEST_MS,
  NAMES,
  oneOf,
  PACED,
  placedDeployments,
} from "./hub-workloads.ts";
import { type ObjectSight, watchObjects } from "./object-sight.ts";
import { openRawSender, type RawSender } from "./raw-requests.ts";
import { type Figure, median, quantile } from "./report.ts";

/** Created at once. */
const BURST = 200;
const AGENT = "bench-hub";

export async function benchFleetHub(options: FleetHubOptions): Promise<readonly Figure[]> {
  const { onProgress, onServer } = options;
  onProgress(`starting a hub and ${NAMES.length} cells`);
  await using fleet = await startTestFleet({ planes: ["hub", ...NAMES], audit: true });
  const hub = fleet.plane("hub");
  onServer(JSON.parse(await hub.client.read("/version")).gitVersion);
  await using stage = await openHubStage(hub);
  await using owned = new AsyncDisposableStack();
  const raw = owned.use(senderTo(hub));
  const seen = await openCells(fleet, owned);
  onProgress("the loop: a deployment on the hub, then in a cell");
  const loop = await runLoop(hub, seen, raw);
  const berth = owned.use(await stage.startBerth());
  for (const plane of seen.planes) await addCell(stage, plane);
  await waitForCells(stage, NAMES.length, ENGAGED_MS, berth);
  const bench: Bench = { stage, cells: seen, raw, berth, options };
  const figures = [...(await paced(bench, loop)), ...(await burst(bench)), ...(await statuses(bench))];
  figures.push(...(await whileOneIsFrozen(bench)), ...(await whileAway(bench)));
  return figures;
}

function senderTo({ url, ca, adminToken: token }: TestCluster): RawSender {
  return openRawSender({ url, ca, token }, { connections: 32, userAgent: AGENT });
}

async function openCells(fleet: TestFleet, owned: AsyncDisposableStack): Promise<Cells> {
  const planes = [];
  const sights: ObjectSight<WorkloadDeployment>[] = [];
  for (const name of NAMES) {
    const cluster = fleet.plane(name);
    const { client } = cluster;
    await prepare(client);
    // A cell has a credential of its own, with the rights of an administrator.
    const user = await cluster.user("hub", ["system:masters"]);
    const kubeconfig = cluster.kubeconfig({ user });
    const city = name.slice(0, 3).toUpperCase();
    planes.push({ name, city, client, cluster, kubeconfig, identityNamespace: "kube-system" });
    const asCell = owned.adopt(cluster.connect({ userAgent: "bench-cell" }), (it) => it.close());
    owned.use(await playCells(asCell, [name]));
    sights.push(owned.use(await sightOf(client)));
  }
  return {
    planes,
    async until(name) {
      const stop = new AbortController();
      const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(LATEST_MS)]);
      const all = sights.map((it) => it.until(name, () => true, signal));
      const first = await Promise.any(all).catch(() => Number.POSITIVE_INFINITY);
      stop.abort();
      await Promise.allSettled(all);
      return first;
    },
  };
}

const sightOf = (client: KubeClient, namespace?: string): Promise<ObjectSight<WorkloadDeployment>> =>
  watchObjects(client, {
    resource: workloadDeployments,
    ...(namespace && { namespace }),
    project: ({ metadata, status }) => ({
      metadata: { name: metadata?.name ?? "" },
      ...(status && { status }),
    }),
  });

/** From the creation on the hub until a watcher of the cell sees it, ms, with nothing decided between. */
async function runLoop(
  hub: TestCluster,
  { planes, until }: Cells,
  raw: RawSender,
): Promise<readonly number[]> {
  const namespace = "bench-loop";
  const [cell] = planes;
  if (cell === undefined) return [];
  await using toCell = senderTo(cell.cluster);
  for (const { client } of [hub, cell]) await client.create(namespaces, { metadata: { name: namespace } });
  const path = COMPUTE.replace(NAMESPACE, namespace);
  const took = await everyTenth(PACED, async (at) => {
    const name = `loop-${at}`;
    const request = post(`${path}/workloaddeployments`, {
      apiVersion: "compute.datumapis.com/v1alpha",
      kind: "WorkloadDeployment",
      metadata: { name, namespace },
      spec: {
        cityCode: cell.city,
        placementName: "all",
        workloadRef: { name, uid: name },
        scaleSettings: { minReplicas: 0 },
        template: { spec: templateSpec("1") },
      },
    });
    const arrived = until(name);
    const { sentAt } = await raw.send(request);
    await toCell.send(request);
    return (await arrived) - sentAt;
  });
  for (const { client } of [hub, cell]) await client.deleteCollection(workloadDeployments, { namespace });
  return took;
}

async function paced(bench: Bench, loop: readonly number[]): Promise<readonly Figure[]> {
  const { stage, berth, options } = bench;
  options.onProgress(`${PACED} Workloads, ten a second`);
  await create(bench, "first", "DFW");
  const { audit } = stage.hub;
  const mark = await audit.mark();
  const cpuBefore = await berth.cpuMs();
  const took = await everyTenth(PACED, (at) => create(bench, `paced-${at}`, cityOf(at)));
  await untilReady(bench, PACED + 1);
  const cpuMs = (await berth.cpuMs()) - cpuBefore;
  const writes = (await audit.entriesSince(mark, { userAgent: berth.userAgent })).filter(
    (it) => isWrite(it) && !/^(?:leases|events)\./.test(it.resource),
  );
  const isOfInstance = ({ resource }: (typeof writes)[number]): boolean => resource.startsWith("instances.");
  const [ofInstances, ofDeployments] = [
    writes.filter(isOfInstance),
    writes.filter((it) => !isOfInstance(it)),
  ];
  const [p50, loopP50] = [median(took), median(loop)];
  const text = (all: readonly number[]): string =>
    `p50 ${median(all).toFixed(0)} ms, p99 ${quantile(all, 0.99).toFixed(0)} ms`;
  return [
    {
      id: "fleet-hub-create-p99",
      what: "Workload created to its deployment in the cell, ten a second, p99",
      value: quantile(took, 0.99),
      unit: "ms",
      budget: 150,
      detail: `${text(took)}; the loop: ${text(loop)}`,
      samples: took,
    },
    {
      id: "fleet-hub-create-vs-loop",
      what: "the same, p50 / the loop",
      value: p50 / loopP50,
      unit: "x",
      budget: 1.5,
    },
    {
      id: "fleet-hub-writes",
      what: "writes to the hub, which is the project too, for each deployment, created to Available",
      value: ofDeployments.length / PACED,
      unit: "requests",
      detail: textOf(ofDeployments),
    },
    {
      id: "fleet-hub-instance-writes",
      what: "further ones for each Instance: hub and project",
      value: ofInstances.length / PACED,
      unit: "requests",
      budget: 6,
      detail: textOf(ofInstances),
    },
    {
      id: "fleet-hub-cpu",
      what: "CPU of the hub's Berth for each deployment with one Instance",
      value: cpuMs / PACED,
      unit: "ms",
      budget: 30,
    },
  ];
}

/** Resolves once so many Workloads show one Ready Instance each. */
async function untilReady({ stage, berth }: Bench, count: number): Promise<number> {
  const deadline = performance.now() + LATEST_MS;
  for (;;) {
    const { items } = await stage.hub.client.list(workloads, { namespace: NAMESPACE, resourceVersion: "0" });
    const ready = items.filter((it) => readyOf(it) > 0).length;
    if (ready >= count) return performance.now();
    berth.ended.throwIfAborted();
    if (performance.now() > deadline)
      throw new Error(`${ready} of ${count} Workloads are ready\n${berth.log}`);
    await delay(EVERY_MS);
  }
}

async function burst(bench: Bench): Promise<readonly Figure[]> {
  bench.options.onProgress(`${BURST} Workloads at once`);
  const names = Array.from({ length: BURST }, (_, at) => [`burst-${at}`, cityOf(at)] as const);
  const arrived = names.map(([name, city]) => bench.cells.until(deploymentOf(name, city)));
  const startedAt = performance.now();
  const cpuBefore = await cpuSeconds(bench);
  await bench.raw.sendAll(names.map(([name, city]) => oneOf(name, city)));
  const seconds = (Math.max(...(await Promise.all(arrived))) - startedAt) / 1000;
  const cpu = (await cpuSeconds(bench)).map((used, of) => (used - (cpuBefore[of] ?? 0)).toFixed(1));
  await untilReady(bench, PACED + 1 + BURST);
  const perSecond = BURST / seconds;
  return [
    {
      id: "fleet-hub-sustained",
      what: "seconds for 50 deployments, created to their cell, of a burst",
      value: 50 / perSecond,
      unit: "s",
      budget: 1,
      detail: `${perSecond.toFixed(0)} deployments a second: ${BURST} in ${seconds.toFixed(1)} s; CPU on ${cpus().length} cores: Berth ${cpu[0]} s, this benchmark and its cells ${cpu[1]} s, API servers and all else ${cpu[2]} s`,
    },
  ];
}

/** So far: of Berth, of this process, and of all else on the machine. */
async function cpuSeconds({ berth }: Bench): Promise<readonly number[]> {
  const { user, system } = process.cpuUsage();
  const [hub, own] = [(await berth.cpuMs()) / 1000, (user + system) / 1e6];
  const all = cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys + times.irq, 0);
  return [hub, own, all / 1000 - hub - own];
}

/** From a status that the cell has stored until the hub's deployment, and the Workload, show it. */
async function statuses({ stage, cells: { planes }, options }: Bench): Promise<readonly Figure[]> {
  options.onProgress(`${PACED} changed statuses, ten a second`);
  const { client } = stage.hub;
  const placed = await placedDeployments(planes);
  const some = placed.filter(({ name }) => name.startsWith("paced-")).slice(0, PACED);
  const namespace = some[0]?.namespace ?? "";
  await using onHub = await sightOf(client, namespace);
  await using inProject = await watchObjects<Workload>(client, {
    resource: workloads,
    namespace: NAMESPACE,
    project: ({ metadata, status }) => ({
      metadata: { name: metadata?.name ?? "" },
      ...(status && { status }),
    }),
  });
  const took = await everyTenth(some.length, async (at) => {
    const one = some[at];
    if (one === undefined) throw new Error("there is no such deployment");
    const signal = AbortSignal.timeout(LATEST_MS);
    const isGone = (it: Workload | WorkloadDeployment): boolean => readyOf(it) === 0;
    const seen = [
      onHub.until(one.name, isGone, signal),
      inProject.until(one.name.replace(/-all-[a-z]+$/, ""), isGone, signal),
    ];
    const body = { status: statusOf(one.deployment, 0) };
    const of = { namespace: one.namespace, name: one.name };
    await one.client.patch(workloadDeployments, of, { type: "merge", body }, { subresource: "status" });
    const storedAt = performance.now();
    return Promise.all(seen.map(async (it) => (await it) - storedAt));
  });
  const [toHub, toWorkload] = [0, 1].map((which) => took.map((it) => it[which] ?? Number.NaN));
  return [
    {
      id: "fleet-hub-status-p99",
      what: "status stored in the cell to the hub, ten a second, p99",
      value: quantile(toHub ?? [], 0.99),
      unit: "ms",
      budget: 150,
    },
    {
      id: "fleet-hub-status-workload-p95",
      what: "the same to the Workload in the project, p95",
      value: quantile(toWorkload ?? [], 0.95),
      unit: "ms",
      budget: 1000,
    },
  ];
}
