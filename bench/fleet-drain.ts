/** A cell is drained of a hundred deployments: how long that takes, what is ready meanwhile, and what it costs. */
import {
  cells,
  type Instance,
  type InstanceSpec,
  instances,
  type WorkloadDeployment,
  workloadDeployments,
  workloads,
} from "@berth/fleet";
import { type KubeClient, namespaces } from "@berth/kube";
import { isConditionTrue } from "@berth/runtime";
import { type AuditEntry, eventually, startTestFleet, type TestCluster } from "@berth/testcluster";
import { Actor } from "../packages/fleet/src/testing/actor.ts";
import { playCells } from "../packages/fleet/src/testing/cell-actor.ts";
import { createWorkload, isWrite, NAMESPACE, templateSpec, textOf } from "./fleet-stage.ts";
import { addCell, openHubStage, prepare, readyOf, waitForCells } from "./hub-stage.ts";
import { ENGAGED_MS, type FleetHubOptions, LATEST_MS } from "./hub-workloads.ts";
import { watchObjects } from "./object-sight.ts";
import { openRawSender } from "./raw-requests.ts";
import type { Figure } from "./report.ts";

const [FROM, TO] = ["dfw-01", "dfw-02"] as const;
const COUNT = 100;
const EACH = 3;
/** As a Fleet has it by default. */
const AT_ONCE = 10;
/** Until an Instance is Ready. They start one after the other, as Berth starts them. */
const START_MS = 1_000;
const WAIT = { timeoutMs: LATEST_MS, everyMs: 100 };

export async function benchFleetDrain({ onProgress, onServer }: FleetHubOptions): Promise<readonly Figure[]> {
  onProgress("starting a hub and two cells");
  await using fleet = await startTestFleet({ planes: ["hub", FROM, TO], audit: true });
  const hub = fleet.plane("hub");
  onServer(JSON.parse(await hub.client.read("/version")).gitVersion);
  await using stage = await openHubStage(hub);
  await using owned = new AsyncDisposableStack();
  for (const name of [FROM, TO]) {
    const cluster = fleet.plane(name);
    await prepare(cluster.client);
    const asCell = owned.adopt(cluster.connect({ userAgent: "bench-cell" }), (it) => it.close());
    owned.use(await playCells(asCell, [name], { startMs: START_MS }));
  }
  onProgress("the loop: creates, waits and deletes");
  const loopMs = await runLoop(fleet.plane(FROM).client, fleet.plane(TO).client);
  const berth = owned.use(await stage.startBerth());
  const add = async (name: string, count: number): Promise<void> => {
    const cluster = fleet.plane(name);
    const kubeconfig = cluster.kubeconfig({ user: await cluster.user("hub", ["system:masters"]) });
    const { client } = cluster;
    await addCell(stage, { name, city: "DFW", client, kubeconfig, identityNamespace: "kube-system" });
    await waitForCells(stage, count, ENGAGED_MS, berth);
  };
  onProgress(`${COUNT} Workloads with ${EACH} Instances each`);
  await add(FROM, 1);
  await createAll(hub);
  await eventually(async () => {
    berth.ended.throwIfAborted();
    const { items } = await hub.client.list(workloads, { namespace: NAMESPACE, resourceVersion: "0" });
    const ready = items.filter((it) => readyOf(it) === EACH).length;
    if (ready < COUNT) throw new Error(`${ready} of ${COUNT} Workloads are ready`);
  }, WAIT);
  await add(TO, 2);
  onProgress("the drain");
  const least = owned.use(new LeastReady());
  await least.follow(
    hub.client,
    [FROM, TO].map((name) => fleet.plane(name).client),
  );
  const planes = [hub, fleet.plane(FROM), fleet.plane(TO)];
  const marks = await Promise.all(planes.map((it) => it.audit.mark()));
  const startedAt = performance.now();
  await hub.client.patch(cells, { name: FROM }, { type: "merge", body: { spec: { drain: true } } });
  await eventually(async () => {
    berth.ended.throwIfAborted();
    const { status } = await hub.client.get(cells, { name: FROM });
    const drained = status?.conditions?.find(({ type }) => type === "Drained");
    if (drained?.status !== "True") throw new Error(drained?.message ?? "not begun");
  }, WAIT);
  const drainMs = performance.now() - startedAt;
  const written = await Promise.all(
    planes.map((it, at) => {
      const mark = marks[at];
      if (mark === undefined) throw new Error("there is no mark");
      return it.audit.entriesSince(mark, { userAgent: at === 0 ? berth.userAgent : "berth/" });
    }),
  );
  const writes = written.flat().filter(isFurther);
  return [
    {
      id: "fleet-drain-vs-loop",
      what: `drain of ${COUNT} deployments with ${EACH} Instances, ${AT_ONCE} at once / the loop`,
      value: drainMs / loopMs,
      unit: "x",
      budget: 1.3,
      detail: `${(drainMs / 1000).toFixed(1)} s and ${(loopMs / 1000).toFixed(1)} s; each Instance takes ${START_MS} ms, one after the other`,
    },
    {
      id: "fleet-drain-missing",
      what: "the same: most Instances that any deployment lacked of those that are wanted, in the cells and as told",
      value: EACH - least.value,
      unit: "requests",
      budget: 0,
    },
    {
      id: "fleet-drain-writes",
      what: "the same: further writes for each Instance",
      value: writes.length / (COUNT * EACH),
      unit: "requests",
      budget: 2,
      detail: textOf(writes),
    },
  ];
}

/** Beside creations, deletions, and what each Instance costs anyway. */
function isFurther(entry: AuditEntry): boolean {
  const { verb, resource } = entry;
  if (!isWrite(entry) || verb === "create" || verb === "delete") return false;
  return !/^(?:leases|events|instances)\./.test(resource);
}

async function createAll({ url, ca, adminToken: token }: TestCluster): Promise<void> {
  await using raw = openRawSender({ url, ca, token }, { connections: 32, userAgent: "bench-drain" });
  await raw.sendAll(
    Array.from({ length: COUNT }, (_, at) =>
      createWorkload(`moving-${at}`, { cities: ["DFW"], perCity: EACH }),
    ),
  );
}

/** Nothing decides, and no hub is told. */
async function runLoop(from: KubeClient, to: KubeClient): Promise<number> {
  const namespace = "bench-loop";
  const names = Array.from({ length: COUNT }, (_, at) => `loop-${at}`);
  for (const client of [from, to]) await client.create(namespaces, { metadata: { name: namespace } });
  const project = (it: WorkloadDeployment): WorkloadDeployment => it;
  await using inFrom = await watchObjects(from, { resource: workloadDeployments, namespace, project });
  await using inTo = await watchObjects(to, { resource: workloadDeployments, namespace, project });
  const signal = AbortSignal.timeout(LATEST_MS);
  const isReady = (it: WorkloadDeployment): boolean => readyOf(it) === EACH;
  const creating = names.map((name) => inFrom.until(name, isReady, signal));
  for (const name of names) await from.create(workloadDeployments, deploymentOf(name, namespace));
  await Promise.all(creating);
  const startedAt = performance.now();
  const left = [...names];
  const lane = async (): Promise<void> => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) {
      const ready = inTo.until(name, isReady, signal);
      await to.create(workloadDeployments, deploymentOf(name, namespace));
      await ready;
      await from.delete(workloadDeployments, { namespace, name });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  const tookMs = performance.now() - startedAt;
  for (const client of [from, to]) {
    await client.deleteCollection(workloadDeployments, { namespace });
    await eventually(async () => {
      const { items } = await client.list(instances, { namespace });
      if (items.length > 0) throw new Error(`${items.length} Instances of the loop are left`);
    }, WAIT);
  }
  return tookMs;
}

function deploymentOf(name: string, namespace: string): WorkloadDeployment {
  return {
    metadata: { name, namespace },
    spec: {
      cityCode: "DFW",
      placementName: "all",
      workloadRef: { name, uid: name },
      scaleSettings: { minReplicas: EACH, instanceManagementPolicy: "OrderedReady" },
      template: { spec: templateSpec("1") as InstanceSpec },
    },
  };
}

/** The fewest Ready Instances that any deployment had, by what watches of all planes show. */
class LeastReady implements AsyncDisposable {
  value: number = EACH;
  readonly #ready = new Map<string, Set<string>>();
  readonly #actors: Actor[] = [];

  async follow(hub: KubeClient, inCells: readonly KubeClient[]): Promise<void> {
    let isKnown = false;
    const note = (count: number): void => {
      if (isKnown) this.value = Math.min(this.value, count);
    };
    const act = (): Promise<void> => Promise.resolve();
    for (const client of inCells)
      await this.#actor(client).follow<Instance>({
        resource: instances,
        act,
        onChange: ({ type, object: { metadata, status } }) => {
          const { name = "", uid = "" } = metadata ?? {};
          const of = this.#readyOf(name.replace(/-\d+$/, ""));
          if (type !== "deleted" && isConditionTrue(status?.conditions, "Ready")) of.add(uid);
          else of.delete(uid);
          note(of.size);
        },
      });
    await this.#actor(hub).follow({
      resource: workloads,
      act,
      onChange: ({ object }) => note(readyOf(object)),
    });
    isKnown = true;
  }

  #readyOf(deployment: string): Set<string> {
    const found = this.#ready.get(deployment) ?? new Set();
    this.#ready.set(deployment, found);
    return found;
  }

  #actor(client: KubeClient): Actor {
    const actor = new Actor(client);
    this.#actors.push(actor);
    return actor;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#actors.map((it) => it[Symbol.asyncDispose]()));
  }
}
