/**
 * The requests in the life of Instances, from the audit log: they come, they roll, they go. And how soon the status of their
 * Workload follows during the roll. Once without and once with a quota service, which the benchmark plays.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { AuditEntry } from "@berth/testcluster";
import { networkBindings } from "../packages/fleet/src/api/networking.ts";
import { grantClaims } from "../packages/fleet/src/testing/grant-claims.ts";
import { receivedAt } from "./audit.ts";
import { watchCounts } from "./fleet-latency.ts";
import {
  areReady,
  createWorkload,
  deleteWorkload,
  type FleetStage,
  isRead,
  isWrite,
  LATE_MS,
  NAMESPACE,
  ofAudit,
  PER_CITY,
  type RunningBerth,
  requestsSince,
  roll,
  type Shape,
  scale,
  textOf,
  waitForWorkloads,
} from "./fleet-stage.ts";
import type { RawRequest } from "./raw-requests.ts";
import { type Figure, quantile } from "./report.ts";

export interface FleetLifeOptions {
  /** Instances of the one deployment that is looked at. Default as many as elsewhere. */
  readonly perCity?: number;
  readonly onProgress: (text: string) => void;
}

/** Requests. The one for a pod that is late is left out: such Instances are not counted. */
const WRITES = { create: { off: 5, on: 7 }, delete: { off: 3, on: 4 } } as const;
/** Networks open a gate of their own. */
const NETWORK_WRITES = 1;
const STATUS_WRITES = 2;
const LATENCY_MS = 500;
/** A pod that is not Ready within it is reported as starting: one write more. Milliseconds. */
const LATE_POD_MS = 1000;
const TIMEOUT_MS = 300_000;
const CITIES = ["C10", "C11", "C12", "C13"];
const NAME = "life";

export async function benchFleetLife(
  stage: FleetStage,
  { perCity = PER_CITY, onProgress }: FleetLifeOptions,
): Promise<readonly Figure[]> {
  const shape: Shape = { cities: CITIES, perCity, apart: true };
  const figures: Figure[] = [];
  for (const quota of [false, true]) {
    await using client = stage.cluster.connect({ userAgent: "bench-quota" });
    await using _grants = quota ? await grantClaims(client, { budget: 1_000_000 }) : undefined;
    await using berth = await stage.startBerth({ quota });
    onProgress(`${CITIES.length * perCity} Instances come, roll and go, ${quota ? "with" : "without"} quota`);
    figures.push(
      ...toFigures(stage, await live(stage, berth, shape), { quota, count: CITIES.length * perCity }),
    );
    await stage.raw.send(deleteWorkload(NAME));
    await reach(stage, berth, { are: (all) => all.length === 0 });
    // No garbage collector runs.
    if (stage.networks) await client.deleteCollection(networkBindings, { namespace: NAMESPACE });
  }
  return figures;
}

interface Phase {
  /** Of Berth, without leader election. */
  readonly requests: readonly AuditEntry[];
  /** Instances that are counted. */
  readonly names: readonly string[];
  /** Whose pod was late. */
  readonly late: number;
}

interface Life {
  readonly create: Phase;
  readonly roll: Phase;
  readonly delete: Phase;
  /** Of the roll. Milliseconds. */
  readonly latencies: readonly number[];
}

async function live(stage: FleetStage, berth: RunningBerth, shape: Shape): Promise<Life> {
  const count = shape.cities.length * shape.perCity;
  const phase = async (request: RawRequest, wanted: number): Promise<Phase> => {
    const mark = await stage.cluster.audit.mark();
    await stage.raw.send(request);
    // The new template is on its way to the deployments: until then, the Workload counts what is there.
    if (request.method === "PATCH") await delay(LATE_MS);
    await reach(stage, berth, { are: (all) => areReady(all, wanted) });
    const requests = await requestsSince(stage, berth, mark);
    const all = new Set(requests.filter(({ resource }) => resource === "pods").map(({ name }) => name));
    const late = lateOf(await stage.cluster.audit.entriesSince(mark, { resource: "pods" }));
    return { requests, names: [...all].filter((name) => !late.has(name)), late: late.size };
  };
  const created = await phase(createWorkload(NAME, shape), count);
  await using watch = await watchCounts(stage.cluster.client);
  const rolled = await phase(roll(NAME, "2"), count);
  const latencies = watch.latencies();
  const deleted = await phase(scale(NAME, { ...shape, perCity: 0 }), 0);
  return { create: created, roll: rolled, delete: deleted, latencies };
}

/** Names of pods whose kubelet reported more than `LATE_POD_MS` after their creation. */
function lateOf(entries: readonly AuditEntry[]): ReadonlySet<string> {
  const createdAt = new Map<string, number>();
  const late = new Set<string>();
  for (const entry of entries.toSorted((a, b) => receivedAt(a) - receivedAt(b))) {
    const { verb, subresource, name } = entry;
    if (verb === "create" && subresource === "") createdAt.set(name, receivedAt(entry));
    const at = createdAt.get(name);
    if (verb === "patch" && subresource === "status" && at !== undefined) {
      if (receivedAt(entry) - at > LATE_POD_MS) late.add(name);
      createdAt.delete(name);
    }
  }
  return late;
}

async function reach(
  stage: FleetStage,
  berth: RunningBerth,
  { are }: { readonly are: Parameters<typeof waitForWorkloads>[2]["is"] },
): Promise<void> {
  if (!(await waitForWorkloads(stage, berth, { is: are, timeoutMs: TIMEOUT_MS })))
    throw new Error(`the Workload did not come so far within ${TIMEOUT_MS} ms\n${berth.log}`);
}

/** Of one Instance with its pod and claim: writes that the server took. */
function writesOf({ requests }: Phase, instance: string): readonly AuditEntry[] {
  const names = new Set([instance, `instance-${instance}`]);
  const resources = new Set<string>([ofAudit.instances, ofAudit.claims, "pods"]);
  return requests.filter(
    (it) => isWrite(it) && it.code < 300 && resources.has(it.resource) && names.has(it.name),
  );
}

const statusWrites = ({ requests }: Phase, resource: string): number =>
  requests.filter((it) => isWrite(it) && it.resource === resource && it.subresource === "status").length;

function toFigures(
  { networks }: FleetStage,
  life: Life,
  { quota, count }: { readonly quota: boolean; readonly count: number },
): readonly Figure[] {
  const [key, how] = quota ? (["on", "with quota"] as const) : (["off", "without quota"] as const);
  const [create, gone] = [WRITES.create[key] + (networks ? NETWORK_WRITES : 0), WRITES.delete[key]];
  const ofEach = (phase: Phase, what: string, budget: number, original: string): Figure => {
    const counts = phase.names.map((name) => writesOf(phase, name).length);
    const [first = ""] = phase.names;
    const spread = [
      ...Map.groupBy(
        counts.toSorted((a, b) => a - b),
        (it) => it,
      ),
    ].map(([it, all]) => `${all.length} with ${it}`);
    return {
      id: `fleet-${what}-writes-${key}`,
      what: `${what} one Instance, ${how}: writes, the most of ${counts.length}`,
      value: Math.max(...counts),
      unit: "requests",
      budget,
      detail: `${spread.join(", ")}; ${first}: ${textOf(writesOf(phase, first))}; ${phase.late} left out: their pod took more than ${LATE_POD_MS} ms; the original: ${original}`,
    };
  };
  const phases = [life.create, life.roll, life.delete];
  // A roll is an Instance that goes and one that comes.
  const ofStatus = (resource: string): number =>
    Math.max(...phases.map((phase, at) => statusWrites(phase, resource) / count / (at === 1 ? 2 : 1)));
  const texts = (resource: string): string => phases.map((phase) => statusWrites(phase, resource)).join(", ");
  const status = (id: string, resource: string): Figure => ({
    id: `fleet-${id}-status-${key}`,
    what: `${how}: status writes of a ${id} for each Instance that comes or goes`,
    value: ofStatus(resource),
    unit: "x",
    budget: STATUS_WRITES,
    detail: `for ${count} that come, roll, go: ${texts(resource)}`,
  });
  const all = phases.flatMap(({ requests }) => requests);
  // Other capabilities look for leftovers of their webhooks every five minutes.
  const reads = all.filter((it) => isRead(it) && !it.resource.endsWith(".admissionregistration.k8s.io"));
  const refused = all.filter((it) => isWrite(it) && it.code >= 300);
  const events = all.filter(({ resource }) => resource.startsWith("events"));
  const { latencies } = life;
  const looks = quota ? ", and a GET of the claim in every pass of every Instance" : "";
  return [
    ofEach(life.create, "create", create, `${create + 2}, one more for each further gate${looks}`),
    ofEach(life.roll, "roll", create + gone, `${create + gone + 3}${looks}`),
    ofEach(life.delete, "delete", gone, `${gone + 1}, as each finalizer goes by itself`),
    status("deployment", ofAudit.deployments),
    status("Workload", ofAudit.workloads),
    {
      id: `fleet-reads-${key}`,
      what: `${how}: GET and LIST while ${count} Instances come, roll and go`,
      value: reads.length,
      unit: "requests",
      budget: 0,
      detail: `${textOf(reads)}; Events written: ${events.length}; refused writes: ${textOf(refused)}`,
    },
    {
      id: `fleet-latency-${key}`,
      what: `${how}: change of an Instance to the status of its Workload during the roll, p95`,
      value: quantile(latencies, 0.95),
      unit: "ms",
      budget: LATENCY_MS,
      detail: `p50 ${quantile(latencies, 0.5).toFixed(0)} ms, longest ${Math.max(...latencies).toFixed(0)} ms of ${latencies.length} changes of the counts, as two watches show them`,
    },
  ];
}
