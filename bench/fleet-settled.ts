/**
 * Many Instances that are settled: a restart, requests and reconciles at rest, and resident memory beside the Go peer. The
 * objects are those of one Instance that Berth brought up before, created again under other names.
 */
import { setTimeout as delay } from "node:timers/promises";
import {
  type Instance,
  instances,
  type Workload,
  type WorkloadDeployment,
  workloadDeployments,
  workloads,
} from "@berth/fleet";
import { type KubeClient, type KubeObject, type Pod, pods, type Resource } from "@berth/kube";
import { labels } from "../packages/fleet/src/api/keys.ts";
import {
  locations,
  networkBindings,
  networkContexts,
  networks,
  subnetClaims,
  subnets,
} from "../packages/fleet/src/api/networking.ts";
import { type ResourceClaim, resourceClaims } from "../packages/fleet/src/api/quota.ts";
import { grantClaims } from "../packages/fleet/src/testing/grant-claims.ts";
import {
  areReady,
  CITIES,
  CLAIMS,
  COMPUTE,
  createWorkload,
  deleteWorkload,
  type FleetStage,
  isRead,
  isWrite,
  NAMESPACE,
  PER_CITY,
  PODS,
  type RunningBerth,
  requestsSince,
  textOf,
  waitForWorkloads,
} from "./fleet-stage.ts";
import { post } from "./gate-stage.ts";
import { MB } from "./held-memory.ts";
import { fleetPeerProgram } from "./peer.ts";
import { startProgram } from "./process.ts";
import type { RawRequest } from "./raw-requests.ts";
import { type Figure, median } from "./report.ts";

/** As Berth leaves them. */
export interface Settled {
  readonly workload: Workload;
  readonly deployment: WorkloadDeployment;
  readonly instance: Instance;
  readonly pod: Pod;
  readonly claim: ResourceClaim;
}

export interface FleetSettledOptions {
  readonly settled: Settled;
  /** Instances, each with a pod and a claim. */
  readonly count: number;
  /** The peer. Absent: memory is not compared. */
  readonly peer: string | undefined;
  /** After which resident memory is read; twice as long nothing happens. Seconds. */
  readonly restSeconds: number;
  readonly onProgress: (text: string) => void;
}

const BUDGET_SIZE = 10_000;
const ROUNDS = 3;
const SYNC_RATIO = 1.5;
const MEMORY_RATIO = 1;
/** So long without a write, and Berth has said of these objects what it has to. Milliseconds. */
const QUIET_MS = 5000;
const TIMEOUT_MS = 600_000;
const NAME = "settled";

/** Has Berth run one Instance with a claim, on a stage with pods, and takes it away again. */
export async function settleOne(stage: FleetStage): Promise<Settled> {
  const { client } = stage.cluster;
  await using _grants = await grantClaims(client, { budget: 1 });
  await using berth = await stage.startBerth({ quota: true });
  await stage.raw.send(createWorkload(NAME, { cities: CITIES.slice(0, 1), perCity: 1 }));
  const is = (all: readonly Workload[]): boolean => areReady(all, 1);
  if (!(await waitForWorkloads(stage, berth, { is, timeoutMs: TIMEOUT_MS })))
    throw new Error(`one Instance did not become Ready\n${berth.log}`);
  const only = async <T extends KubeObject>(resource: Resource<T>): Promise<T> => {
    const { items } = await client.list(resource, { namespace: NAMESPACE });
    const [item] = items;
    if (item === undefined) throw new Error(`there is no ${resource.kind}`);
    return item;
  };
  const settled = {
    workload: await only(workloads),
    deployment: await only(workloadDeployments),
    instance: await only(instances),
    pod: await only(pods),
    claim: await only(resourceClaims),
  };
  await stage.raw.send(deleteWorkload(NAME));
  await waitForWorkloads(stage, berth, { is: (all) => all.length === 0, timeoutMs: TIMEOUT_MS });
  return settled;
}

/** @param stage nothing runs pods there: they stay as they are. */
export async function benchFleetSettled(
  stage: FleetStage,
  { settled, count, peer, restSeconds, onProgress }: FleetSettledOptions,
): Promise<readonly Figure[]> {
  onProgress(`creating ${count} settled Instances with their pods and claims`);
  await fill(stage, settled, count);
  onProgress("Berth counts them, once");
  const counted = await countOnce(stage);
  await using client = stage.cluster.connect({ userAgent: "bench-lists" });
  const [syncs, lists]: [number[], number[]] = [[], []];
  for (let round = 1; round < ROUNDS; round++) {
    onProgress(`restart and lists, round ${round} of ${ROUNDS}`);
    lists.push(await timeLists(client, stage));
    await using berth = await stage.startBerth({ quota: true });
    syncs.push(berth.syncMs);
  }
  onProgress(`restart and lists, round ${ROUNDS} of ${ROUNDS}; then at rest for ${2 * restSeconds} s`);
  lists.push(await timeLists(client, stage));
  const mark = await stage.cluster.audit.mark();
  const rested = await (async () => {
    await using berth = await stage.startBerth({ quota: true });
    syncs.push(berth.syncMs);
    await delay(QUIET_MS);
    const started = await requestsSince(stage, berth, mark);
    return { started, ...(await rest(stage, berth, restSeconds)) };
  })();
  const go = peer === undefined ? [] : await holdPeers(stage, { peer, restSeconds, onProgress });
  const what = `${count} Instances, pods and claims`;
  const writes = rested.started.filter(isWrite);
  const common = { unit: "requests", budget: 0 } as const;
  const { resident, peak } = rested.memory;
  return [
    {
      id: "fleet-restart-vs-lists",
      what: `${what}: synced after a restart / the raw lists`,
      value: median(syncs) / median(lists),
      unit: "x",
      ...(count >= BUDGET_SIZE && { budget: SYNC_RATIO }),
      detail: `berth ${secondsOf(syncs)} from its start; lists ${secondsOf(lists)}, in pages of 500 with the client of Berth; medians of ${ROUNDS}; requests until then: ${textOf(rested.started.filter(isRead))}`,
      samples: syncs.map((sync, at) => sync / (lists[at] ?? Number.NaN)),
    },
    {
      id: "fleet-restart-writes",
      what: `${what}: writes after a restart`,
      value: writes.length,
      ...common,
      detail: `audit log, until ${QUIET_MS} ms after it was synced: ${textOf(writes)}; before that, once: ${counted}; the original looks at the claim of each Instance: ${count} GETs`,
    },
    {
      id: "fleet-rest-writes",
      what: `${what}: writes at rest`,
      value: rested.requests.filter(isWrite).length,
      ...common,
      detail: `audit log, ${2 * restSeconds} s: ${textOf(rested.requests)}`,
    },
    {
      id: "fleet-rest-reconciles",
      what: `${what}: reconciles at rest, for each Instance`,
      value: rested.reconciles / count,
      unit: "x",
      budget: 1,
      detail: `${rested.reconciles} in ${2 * restSeconds} s, CPU ${rested.cpuMs} ms; ${rested.before} since the start`,
    },
    ...go.map(
      ({ name, held, collected, budget }): Figure => ({
        id: `fleet-memory-vs-${name.replaceAll(" ", "-")}`,
        what: `${what}: resident ${restSeconds} s after sync, berth / ${name}`,
        value: resident / held,
        unit: "x" as const,
        budget: count >= BUDGET_SIZE && budget ? MEMORY_RATIO : undefined,
        detail: `berth ${mb(resident)}, peak ${mb(peak)}; Go ${mb(held)}, ${mb(collected)} once collected (${(resident / collected).toFixed(2)} x)`,
      }),
    ),
    {
      id: "fleet-memory",
      what: `${what}: resident ${restSeconds} s after sync`,
      value: resident / MB,
      unit: "MB",
      detail: `peak ${mb(peak)}`,
    },
  ];
}

/** Each object is made from the one of its kind, and belongs to the new one above it. */
async function fill(stage: FleetStage, settled: Settled, count: number): Promise<void> {
  const of = CITIES.length * PER_CITY;
  const names = Array.from({ length: Math.ceil(count / of) }, (_, index) => `settled-${index}`);
  const shapes = names.map((_, index) => {
    const cities = CITIES.slice(0, Math.ceil(Math.min(of, count - index * of) / PER_CITY));
    return { cities, perCity: PER_CITY };
  });
  const tops = names.map((name, index) => createWorkload(name, shapes[index] ?? { cities: [], perCity: 0 }));
  const topUids = await createAll(stage, tops);
  const owned = names.flatMap((name, index) =>
    (shapes[index]?.cities ?? []).map((city) => ({ workload: name, uid: topUids[index] ?? "", city })),
  );
  const { deployment, instance, pod, claim, workload } = settled;
  const old = workload.metadata?.uid ?? "";
  const nameOf = ({ workload: top, city }: { workload: string; city: string }): string =>
    `${top}-all-${city.toLowerCase()}`;
  const sets = owned.map((one) => {
    const from = renamed(deployment, [
      [deployment.metadata?.name, nameOf(one)],
      [NAME, one.workload],
      [old, one.uid],
    ]);
    const spec = { ...from.spec, cityCode: one.city, scaleSettings: { minReplicas: PER_CITY } };
    return post(`${COMPUTE}/workloaddeployments`, { ...bare(from), spec });
  });
  const setUids = await createAll(stage, sets);
  const members = owned.flatMap((one, index) =>
    Array.from({ length: PER_CITY }, (_, ordinal) => ({
      swaps: [
        [instance.metadata?.name, `${nameOf(one)}-${ordinal}`],
        [deployment.metadata?.name, nameOf(one)],
        [deployment.metadata?.uid, setUids[index]],
        [deployment.spec?.cityCode, one.city],
        [NAME, one.workload],
        [old, one.uid],
      ] as Swaps,
      ordinal,
    })),
  );
  const made = members.map(({ swaps, ordinal }) => {
    const one = renamed(instance, swaps);
    const { [labels.instanceIndex]: _, ...others } = one.metadata?.labels ?? {};
    const own = { ...others, [labels.instanceIndex]: `${ordinal}` };
    return Object.assign(one, { metadata: { ...one.metadata, labels: own } });
  });
  const uids = await createWithStatus(stage, `${COMPUTE}/instances`, made);
  const withUid = <T extends KubeObject>(object: T): readonly T[] =>
    members.map(({ swaps, ordinal }, index) => {
      const all: Swaps = [[instance.metadata?.uid, uids[index]], ...swaps];
      const one = renamed(object, all);
      const own = one.metadata?.labels ?? {};
      if (own[labels.instanceIndex] === undefined) return one;
      const indexed = { ...own, [labels.instanceIndex]: `${ordinal}` };
      return Object.assign(one, { metadata: { ...one.metadata, labels: indexed } });
    });
  await createWithStatus(stage, PODS, withUid(pod));
  await createWithStatus(stage, CLAIMS, withUid(claim));
}

type Swaps = readonly (readonly [from: string | undefined, to: string | undefined])[];

/** Every text that is `from`, or the name of its claim, has `to` instead. */
function renamed<T extends KubeObject>(object: T, swaps: Swaps): T {
  const swap = (text: string): string => {
    for (const [from = "", to = ""] of swaps) {
      if (text === from) return to;
      if (text === `instance-${from}`) return `instance-${to}`;
    }
    return text;
  };
  return JSON.parse(JSON.stringify(object), (_, value) =>
    typeof value === "string" ? swap(value) : value,
  ) as T;
}

/** Without what the server adds. */
function bare<T extends KubeObject>(object: T): T {
  const { name, namespace, labels: own, annotations, finalizers, ownerReferences } = object.metadata ?? {};
  return { ...object, metadata: { name, namespace, labels: own, annotations, finalizers, ownerReferences } };
}

/** @returns uids, in order. */
async function createAll({ raw }: FleetStage, requests: readonly RawRequest[]): Promise<readonly string[]> {
  return Promise.all(
    requests.map(async (request) => {
      const { text } = await raw.send(request, { read: true });
      return (JSON.parse(text) as KubeObject).metadata?.uid ?? "";
    }),
  );
}

async function createWithStatus(
  stage: FleetStage,
  path: string,
  objects: readonly (KubeObject & { readonly status?: object })[],
): Promise<readonly string[]> {
  const uids = await createAll(
    stage,
    objects.map((it) => post(path, bare(it))),
  );
  const patches = objects.map(
    ({ metadata, status }): RawRequest => ({
      method: "PATCH",
      path: `${path}/${metadata?.name}/status`,
      body: { status },
    }),
  );
  await stage.raw.sendAll(patches);
  return uids;
}

/** Workloads and deployments have no counts yet. @returns what Berth wrote. */
async function countOnce(stage: FleetStage): Promise<string> {
  const { audit } = stage.cluster;
  const mark = await audit.mark();
  await using berth = await stage.startBerth({ quota: true });
  const deadline = performance.now() + TIMEOUT_MS;
  for (let before = -1, now = 0; now !== before; ) {
    if (performance.now() > deadline) throw new Error(`Berth does not come to rest\n${berth.log}`);
    await delay(QUIET_MS);
    before = now;
    now = (await requestsSince(stage, berth, mark)).filter(isWrite).length;
    // Nothing at all is not the end: the caches may just have been filled.
    if (now === 0) before = -1;
  }
  return textOf((await requestsSince(stage, berth, mark)).filter(isWrite));
}

async function rest(stage: FleetStage, berth: RunningBerth, seconds: number) {
  const before = await reconcilesOf(berth);
  const mark = await stage.cluster.audit.mark();
  const cpuBefore = await berth.cpuMs();
  await delay(seconds * 1000);
  const memory = await berth.memory();
  await delay(seconds * 1000);
  berth.ended.throwIfAborted();
  const requests = await requestsSince(stage, berth, mark);
  const cpuMs = (await berth.cpuMs()) - cpuBefore;
  return { before, reconciles: (await reconcilesOf(berth)) - before, requests, cpuMs, memory };
}

async function reconcilesOf({ metricsUrl }: RunningBerth): Promise<number> {
  const exposed = await (await fetch(`${metricsUrl}/metrics`)).text();
  const samples = exposed.matchAll(/^compute_reconcile_total\{[^}]*\} (\d+)$/gm);
  return [...samples].reduce((sum, [, runs]) => sum + Number(runs), 0);
}

/** All that Berth reads at its start. */
async function timeLists(client: KubeClient, { networks: hasNetworks }: FleetStage): Promise<number> {
  const startedAt = performance.now();
  const read = async (pages: AsyncIterable<object>): Promise<void> => {
    for await (const page of pages) void page;
  };
  await read(client.pages(instances));
  await read(client.pages(pods, { labelSelector: labels.deploymentUid }));
  await read(client.pages(resourceClaims));
  await read(client.pages(workloadDeployments));
  await read(client.pages(workloads));
  const networking = [locations, networks, networkBindings, networkContexts, subnetClaims, subnets];
  if (hasNetworks) for (const resource of networking) await read(client.pages<KubeObject>(resource));
  return performance.now() - startedAt;
}

interface HeldByPeer {
  readonly name: string;
  /** Bytes. */
  readonly held: number;
  /** After a forced collection. */
  readonly collected: number;
  readonly budget: boolean;
}

async function holdPeers(
  { kubeconfig }: FleetStage,
  {
    peer,
    restSeconds,
    onProgress,
  }: { peer: string; restSeconds: number; onProgress: (text: string) => void },
): Promise<readonly HeldByPeer[]> {
  const found: HeldByPeer[] = [];
  for (const strip of [false, true]) {
    const name = strip ? "Go without managedFields" : "Go";
    onProgress(`${name}: caching the same`);
    await using running = startProgram(fleetPeerProgram(peer, { kubeconfig, strip }));
    await running.line("synced");
    await delay(restSeconds * 1000);
    running.ended.throwIfAborted();
    const { resident: held } = await running.memory();
    const said = running.line("collected");
    running.signal("SIGUSR1");
    await said;
    found.push({ name, held, collected: (await running.memory()).resident, budget: !strip });
  }
  return found;
}

function mb(bytes: number): string {
  return `${(bytes / MB).toFixed(0)} MB`;
}

function secondsOf(times: readonly number[]): string {
  return `${(median(times) / 1000).toFixed(2)} s`;
}
