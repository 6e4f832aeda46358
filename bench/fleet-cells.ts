/**
 * A hub with 200 cells on 22 small control planes: 20 have a cell with Instances each, two have 90 idle ones each. How soon
 * it knows them all, and what they take.
 */
import { setTimeout as delay } from "node:timers/promises";
import { workloads } from "@berth/fleet";
import { namespaces } from "@berth/kube";
import { startTestCluster } from "@berth/testcluster";
import { playCells } from "../packages/fleet/src/testing/cell-actor.ts";
import { createWorkload, NAMESPACE, PER_CITY } from "./fleet-stage.ts";
import { MB } from "./held-memory.ts";
import { addCell, type CellPlane, openHubStage, prepare, readyOf, waitForCells } from "./hub-stage.ts";
import type { FleetHubOptions } from "./hub-workloads.ts";
import { openRawSender } from "./raw-requests.ts";
import type { Figure } from "./report.ts";

/** Control planes by the number of their cells. A watch of one cell brings the objects of all, so only one has any. */
const PLANES: readonly number[] = [...Array.from({ length: 20 }, () => 1), 90, 90];
const CELLS = PLANES.reduce((sum, cells) => sum + cells, 0);
const INSTANCES = 10_000;
const ENGAGED_MS = 120_000;
const TIMEOUT_MS = 900_000;
const POLL_MS = 1_000;
/** Read of each cell: deployments, Instances, namespaces. */
const KINDS = 3;

export async function benchFleetCells(options: FleetHubOptions): Promise<readonly Figure[]> {
  const { restSeconds, onProgress, onServer } = options;
  onProgress(`starting a hub and ${PLANES.length} small control planes`);
  await using owned = new AsyncDisposableStack();
  const hub = owned.use(await startTestCluster());
  const { url, ca, adminToken: token } = hub;
  const raw = owned.use(openRawSender({ url, ca, token }, { connections: 32, userAgent: "bench-hub" }));
  onServer(JSON.parse(await hub.client.read("/version")).gitVersion);
  const stage = owned.use(await openHubStage(hub));
  const planes: CellPlane[] = [];
  for (const [at, count] of PLANES.entries()) planes.push(...(await startPlane(at, count, owned)));
  const resident = async (berth: { memory(): Promise<{ readonly resident: number }> }): Promise<number> => {
    await delay(restSeconds * 1000);
    return (await berth.memory()).resident / MB;
  };
  const held: number[] = [];
  let engagedMs: number;
  {
    await using berth = await stage.startBerth();
    held.push(await resident(berth));
    onProgress(`${CELLS} Cells`);
    const startedAt = performance.now();
    await Promise.all(planes.map((plane) => addCell(stage, plane)));
    await waitForCells(stage, CELLS, ENGAGED_MS, berth);
    engagedMs = performance.now() - startedAt;
    held.push(await resident(berth));
    onProgress(`${INSTANCES} Instances`);
    const shape = {
      cities: PLANES.flatMap((count, at) => (count === 1 ? [cityOf(at)] : [])),
      perCity: PER_CITY,
    };
    const each = shape.cities.length * PER_CITY;
    for (let at = 0; at < INSTANCES / each; at++) await raw.send(createWorkload(`many-${at}`, shape));
    const deadline = performance.now() + TIMEOUT_MS;
    for (let ready = 0; ready < INSTANCES; await delay(POLL_MS)) {
      const { items } = await hub.client.list(workloads, { namespace: NAMESPACE, resourceVersion: "0" });
      ready = items.reduce((sum, it) => sum + readyOf(it), 0);
      berth.ended.throwIfAborted();
      if (performance.now() > deadline) throw new Error(`${ready} of ${INSTANCES} are ready\n${berth.log}`);
    }
    held.push(await resident(berth));
  }
  onProgress("after a restart");
  await using berth = await stage.startBerth();
  while ((await syncedInformers(berth.metricsUrl)) < CELLS * KINDS) {
    berth.ended.throwIfAborted();
    if (Date.now() - berth.startedAt > ENGAGED_MS) throw new Error(`not all cells are read\n${berth.log}`);
    await delay(POLL_MS / 10);
  }
  const synced = Date.now() - berth.startedAt;
  held.push(await resident(berth));
  const [none = 0, idle = 0, made = 0, read = 0] = held;
  const detail = `MB without cells: ${none.toFixed(0)}; with ${CELLS} idle ones: ${idle.toFixed(0)}; with ${INSTANCES} Instances: ${made.toFixed(0)}; after a restart: ${read.toFixed(0)}`;
  return [
    {
      id: "fleet-cells-engaged",
      what: `${CELLS} Cells made at once: all heard after`,
      value: engagedMs / 1000,
      unit: "s",
      budget: 20,
    },
    {
      id: "fleet-cells-steady",
      what: `the same with ${INSTANCES} Instances: steady after a restart`,
      value: synced / 1000,
      unit: "s",
      budget: 15,
    },
    {
      id: "fleet-cells-memory",
      what: `resident with ${CELLS} cells and ${INSTANCES} Instances`,
      value: made,
      unit: "MB",
      budget: 300,
      detail,
    },
    {
      id: "fleet-cells-idle",
      what: "resident for each idle cell",
      value: (idle - none) / CELLS,
      unit: "MB",
      budget: 0.5,
    },
  ];
}

/** Of cells. */
async function syncedInformers(metricsUrl: string): Promise<number> {
  const exposed = await (await fetch(`${metricsUrl}/metrics`)).text();
  return [...exposed.matchAll(/^berth_informer_synced\{.*cluster="p\d\d-\d+".*\} 1$/gm)].length;
}

const cityOf = (plane: number): string => `P${String(plane).padStart(2, "0")}`;

/** Each cell has its credential and its namespace: the hub takes them for different clusters. */
async function startPlane(
  at: number,
  count: number,
  owned: AsyncDisposableStack,
): Promise<readonly CellPlane[]> {
  const cluster = owned.use(await startTestCluster({ small: true }));
  const { client } = cluster;
  await prepare(client);
  const city = cityOf(at);
  const names = Array.from({ length: count }, (_, of) => `${city.toLowerCase()}-${of}`);
  const asCells = owned.adopt(cluster.connect({ userAgent: "bench-cell" }), (it) => it.close());
  owned.use(await playCells(asCells, names));
  return Promise.all(
    names.map(async (name) => {
      await client.create(namespaces, { metadata: { name } });
      const user = await cluster.user(name, ["system:masters"]);
      return { name, city, client, kubeconfig: cluster.kubeconfig({ user }), identityNamespace: name };
    }),
  );
}
