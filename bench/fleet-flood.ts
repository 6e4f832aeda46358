/**
 * A project that floods the hub: 500 namespaces, and in each a Workload to every city, all at once. What does another
 * project notice, when is all as it should be, and what does Berth keep?
 */
import { setTimeout as delay } from "node:timers/promises";
import { type WorkloadDeployment, workloadDeployments, workloads } from "@berth/fleet";
import { namespaces } from "@berth/kube";
import { startTestCluster, type TestCluster } from "@berth/testcluster";
import { playCells } from "../packages/fleet/src/testing/cell-actor.ts";
import { createWorkload, NAMESPACE } from "./fleet-stage.ts";
import { post } from "./gate-stage.ts";
import { MB } from "./held-memory.ts";
import { addCell, openHubStage, prepare, readyOf, waitForCells } from "./hub-stage.ts";
import { deploymentOf, ENGAGED_MS, everyTenth, type FleetHubOptions, LATEST_MS } from "./hub-workloads.ts";
import { type ObjectSight, watchObjects } from "./object-sight.ts";
import type { MeasuredProcess } from "./process.ts";
import { openRawSender, type RawRequest, type RawSender } from "./raw-requests.ts";
import { type Figure, quantile } from "./report.ts";

const NAMESPACES = 500;
/** Of the other project, ten a second. */
const PACED = 100;
const POLL_MS = 250;
/** A cell each. */
const CITIES = ["DFW", "ORD"];

export async function benchFleetFlood(options: FleetHubOptions): Promise<readonly Figure[]> {
  const { restSeconds, onProgress, onServer } = options;
  onProgress(`starting a hub, two projects and ${CITIES.length} cells`);
  await using owned = new AsyncDisposableStack();
  const start = async (small: boolean): Promise<TestCluster> => owned.use(await startTestCluster({ small }));
  const hub = await start(false);
  onServer(JSON.parse(await hub.client.read("/version")).gitVersion);
  const [web, flood] = [await start(true), await start(true)];
  for (const { client } of [web, flood]) await prepare(client);
  await web.client.create(namespaces, { metadata: { name: NAMESPACE } });
  const projects = { "acme/web": web.kubeconfig(), "acme/flood": flood.kubeconfig() };
  const stage = owned.use(await openHubStage(hub, projects));
  const berth = owned.use(await stage.startBerth());
  const sights: ObjectSight<WorkloadDeployment>[] = [];
  for (const city of CITIES) {
    const cluster = await start(true);
    const { client } = cluster;
    const name = `${city.toLowerCase()}-01`;
    await prepare(client);
    owned.use(await playCells(client, [name]));
    sights.push(owned.use(await sightOf(cluster)));
    const user = await cluster.user("hub", ["system:masters"]);
    const kubeconfig = cluster.kubeconfig({ user });
    await addCell(stage, { name, city, client, kubeconfig, identityNamespace: "kube-system" });
  }
  await waitForCells(stage, CITIES.length, ENGAGED_MS, berth);
  const [toWeb, toFlood] = [senderTo(web, owned), senderTo(flood, owned)];
  const others = (round: string): Promise<readonly number[]> =>
    everyTenth(PACED, (at) => arrival(`${round}-${at}`, toWeb, sights[0]));
  const resident = async (): Promise<number> => {
    await delay(restSeconds * 1000);
    return (await berth.memory()).resident / MB;
  };
  const names = Array.from({ length: NAMESPACES }, (_, at) => `flood-${at}`);
  await toFlood.sendAll(
    names.map((name) =>
      post("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name } }),
    ),
  );
  onProgress(`${PACED} Workloads of another project, alone`);
  const alone = await others("alone");
  const before = await resident();
  onProgress(`${NAMESPACES} Workloads to ${CITIES.length} cities each, and the other project beside them`);
  const startedAt = performance.now();
  const flooding = toFlood.sendAll(names.map((name) => workloadIn(name, CITIES)));
  const [beside] = await Promise.all([others("beside"), flooding]);
  const steadyAt = await untilReady(flood, berth);
  const after = await resident();
  const p95 = (all: readonly number[]): number => quantile(all, 0.95);
  const what = `while another project creates ${NAMESPACES} Workloads to ${CITIES.length} cities each`;
  return [
    {
      id: "fleet-flood-others",
      what: `Workload created to its deployment in the cell, ten a second, p95, ${what}`,
      value: p95(beside),
      unit: "ms",
      detail: `without: ${p95(alone).toFixed(0)} ms`,
      samples: beside,
    },
    {
      id: "fleet-flood-steady",
      what: `all ${NAMESPACES * CITIES.length} deployments of the flood Ready in the project, from the first creation`,
      value: (steadyAt - startedAt) / 1000,
      unit: "s",
    },
    {
      id: "fleet-flood-memory",
      what: "resident with the flood, over that without",
      value: after - before,
      unit: "MB",
      detail: `${before.toFixed(0)} MB, then ${after.toFixed(0)} MB`,
    },
  ];
}

function senderTo({ url, ca, adminToken: token }: TestCluster, owned: AsyncDisposableStack): RawSender {
  return owned.use(openRawSender({ url, ca, token }, { connections: 32, userAgent: "bench-flood" }));
}

function sightOf({ client }: TestCluster): Promise<ObjectSight<WorkloadDeployment>> {
  const project = ({ metadata }: WorkloadDeployment): WorkloadDeployment => ({
    metadata: { name: metadata?.name ?? "" },
  });
  return watchObjects(client, { resource: workloadDeployments, project });
}

/** Named after its namespace, one Instance in each city. */
function workloadIn(namespace: string, cities: readonly string[]): RawRequest {
  const { path, body, ...request } = createWorkload(namespace, { cities, perCity: 1 });
  const metadata = { name: namespace, namespace };
  return { ...request, path: path.replace(NAMESPACE, namespace), body: { ...body, metadata } };
}

/** From the creation of a Workload until a watcher of its cell sees the deployment, ms. */
async function arrival(
  name: string,
  raw: RawSender,
  sight: ObjectSight<WorkloadDeployment> | undefined,
): Promise<number> {
  const [city = ""] = CITIES;
  const signal = AbortSignal.timeout(LATEST_MS);
  const arrived = sight?.until(deploymentOf(name, city), () => true, signal) ?? Promise.resolve(Number.NaN);
  const { sentAt } = await raw.send(createWorkload(name, { cities: [city], perCity: 1 }));
  return (await arrived) - sentAt;
}

async function untilReady({ client }: TestCluster, berth: MeasuredProcess): Promise<number> {
  const deadline = performance.now() + LATEST_MS;
  for (;;) {
    const { items } = await client.list(workloads, { resourceVersion: "0" });
    const ready = items.filter((it) => readyOf(it) === CITIES.length).length;
    if (ready === NAMESPACES) return performance.now();
    berth.ended.throwIfAborted();
    if (performance.now() > deadline)
      throw new Error(`${ready} of ${NAMESPACES} Workloads are ready\n${berth.log}`);
    await delay(POLL_MS);
  }
}
