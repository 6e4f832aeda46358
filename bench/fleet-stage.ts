/** What the measurements of the fleet share: a cluster, Workloads of small Instances, Berth with a Fleet. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { crds, foreignKinds } from "@berth/cli";
import { type FleetSpec, type Workload, workloads } from "@berth/fleet";
import { namespaces } from "@berth/kube";
import {
  type AuditEntry,
  type AuditMark,
  aNode,
  startTestCluster,
  type TestCluster,
} from "@berth/testcluster";
import { locations, networks } from "../packages/fleet/src/api/networking.ts";
import { installCrds, networkingCrds, quotaCrds } from "../packages/fleet/src/testing/fixture-crds.ts";
import { networkHands } from "../packages/fleet/src/testing/network-hands.ts";
import { post, startReady, WITHOUT_ADMISSION } from "./gate-stage.ts";
import { berthProgram, type MeasuredProcess } from "./process.ts";
import { openRawSender, type RawRequest, type RawSender } from "./raw-requests.ts";

/** Of all objects. */
export const NAMESPACE = "bench-fleet";
export const COMPUTE: string = `/apis/compute.datumapis.com/v1alpha/namespaces/${NAMESPACE}`;
export const PODS: string = `/api/v1/namespaces/${NAMESPACE}/pods`;
export const CLAIMS: string = `/apis/quota.miloapis.com/v1alpha1/namespaces/${NAMESPACE}/resourceclaims`;
/** Of a Workload: one deployment each. */
export const CITIES: readonly string[] = Array.from({ length: 50 }, (_, index) => `C${index + 10}`);
/** Instances of one deployment. */
export const PER_CITY = 20;
/** Requests in flight while something is prepared. */
const IN_FLIGHT = 32;
/** What writes once too often does so within it. Milliseconds. */
export const LATE_MS = 1500;
const POLL_MS = 250;

/** Resources in the audit log. */
export const ofAudit = {
  workloads: "workloads.compute.datumapis.com",
  deployments: "workloaddeployments.compute.datumapis.com",
  instances: "instances.compute.datumapis.com",
  claims: "resourceclaims.quota.miloapis.com",
} as const;
/** Cached where networks are. */
export const NETWORKING: readonly string[] = [
  "locations",
  "networks",
  "networkbindings",
  "networkcontexts",
  "subnetclaims",
  "subnets",
].map((plural) => `${plural}.networking.datumapis.com`);

export interface FleetStageOptions {
  /** A scheduler, and kwok for the kubelets. Without them nothing happens to a pod. */
  readonly runsPods: boolean;
  /** The networking service, played by the benchmark. Default none, and networking is off. */
  readonly networks?: boolean | undefined;
}

export interface FleetStage extends AsyncDisposable {
  readonly cluster: TestCluster;
  /** 32 connections, user agent `bench-fleet`. */
  readonly raw: RawSender;
  readonly folder: string;
  readonly kubeconfig: string;
  readonly networks: boolean;
  /** `bin/berth run` as the fleet of this cluster. Resolves once all caches are filled; the caller disposes it. */
  startBerth(options: BerthOptions): Promise<RunningBerth>;
}

export interface BerthOptions {
  readonly quota: boolean;
  /** Of the Fleet, instead of what a stage of mode `single` has. */
  readonly spec?: Partial<FleetSpec>;
  /** The document AdmissionServer. Default: there is no admission. */
  readonly admission?: object;
  readonly args?: readonly string[];
}

export interface RunningBerth extends MeasuredProcess {
  readonly metricsUrl: string;
  /** From its start until all caches were filled. Milliseconds. */
  readonly syncMs: number;
}

export async function startFleetStage({
  runsPods,
  networks: hasNetworks = false,
}: FleetStageOptions): Promise<FleetStage> {
  await using owned = new AsyncDisposableStack();
  const cluster = owned.use(
    await startTestCluster({ audit: true, ...(runsPods && { with: ["scheduler", "kwok"] }) }),
  );
  const { client } = cluster;
  const folder = await mkdtemp(join(tmpdir(), "berth-bench-fleet-"));
  owned.defer(() => rm(folder, { recursive: true, force: true }));
  const kubeconfig = join(folder, "kubeconfig");
  await writeFile(kubeconfig, cluster.kubeconfig(), { mode: 0o600 });
  const target = { url: cluster.url, ca: cluster.ca, token: cluster.adminToken };
  const raw = owned.use(openRawSender(target, { connections: IN_FLIGHT, userAgent: "bench-fleet" }));
  await client.create(namespaces, { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE } });
  const foreign = [...quotaCrds, ...(hasNetworks ? networkingCrds : [])];
  await installCrds(client, [...crds(foreignKinds(["fleet"])), ...foreign]);
  if (runsPods) await addNodes(raw);
  if (hasNetworks) owned.use(await playNetworks(cluster));
  let files = 0;
  const disposal = owned.move();
  return {
    cluster,
    raw,
    folder,
    kubeconfig,
    networks: hasNetworks,
    async startBerth({ quota, spec = {}, admission = WITHOUT_ADMISSION, args = [] }) {
      const file = join(folder, `config-${++files}.yaml`);
      // JSON is YAML.
      await writeFile(
        file,
        [fleet({ quota, hasNetworks, spec }), admission].map((it) => JSON.stringify(it)).join("\n---\n"),
      );
      const any = "127.0.0.1:0";
      const bind = ["--metrics-bind-address", any, "--health-probe-bind-address", any];
      const { workloads: top, deployments, instances: made, claims } = ofAudit;
      const cached = [deployments, made, "pods", ...(hasNetworks ? NETWORKING : [])];
      if (spec.mode !== "cell") cached.push(top, ...(quota ? [claims] : []));
      return startSynced(["--kubeconfig", kubeconfig, "--config", file, ...bind, ...args], cached);
    },
    [Symbol.asyncDispose]: () => disposal.disposeAsync(),
  };
}

async function startSynced(args: readonly string[], cached: readonly string[]): Promise<RunningBerth> {
  await using owned = new AsyncDisposableStack();
  const berth = owned.use(await startReady(berthProgram(args)));
  const at = await Promise.all(
    cached.map(async (resource) => timeOf(await berth.line(`"resource":"${resource}"`))),
  );
  owned.move();
  return Object.assign(berth, { syncMs: Math.max(...at) - berth.startedAt });
}

/** Of a line of its log: ms since the epoch. */
function timeOf(line: string): number {
  return Date.parse((JSON.parse(line) as { readonly time: string }).time);
}

/** Room for every pod. A server taints new nodes as not ready, and no controller runs that would take this back. */
async function addNodes(raw: RawSender): Promise<void> {
  const names = Array.from({ length: 10 }, (_, index) => `node-${index}`);
  const room = { cpu: "1000", memory: "4Ti", pods: "10000" };
  await raw.sendAll(names.map((name) => post("/api/v1/nodes", aNode(name).capacity(room).fake().build())));
  const bare = { spec: { taints: null } };
  await raw.sendAll(names.map((name) => ({ method: "PATCH", path: `/api/v1/nodes/${name}`, body: bare })));
}

/** One Location for each city, one Network, and the controllers of both. */
async function playNetworks(cluster: TestCluster): Promise<AsyncDisposable> {
  const { client } = cluster;
  await client.create(networks, {
    metadata: { namespace: NAMESPACE, name: "default" },
    spec: { ipam: { mode: "Auto" } },
  });
  for (const city of CITIES)
    await client.create(locations, {
      metadata: { namespace: NAMESPACE, name: city.toLowerCase() },
      spec: {
        locationClassName: "self-managed",
        topology: { "topology.datum.net/city-code": city },
        provider: {},
      },
    });
  await using owned = new AsyncDisposableStack();
  const asService = owned.adopt(cluster.connect({ userAgent: "bench-networks" }), (it) => it.close());
  owned.use(await networkHands(asService));
  return owned.move();
}

function fleet({
  quota,
  hasNetworks,
  spec: given,
}: {
  readonly quota: boolean;
  readonly hasNetworks: boolean;
  readonly spec: Partial<FleetSpec>;
}): object {
  const places = hasNetworks
    ? { networking: "On", locations: { namespaces: [NAMESPACE] } }
    : { networking: "Off", cities: CITIES };
  const withQuota = { project: { id: "bench" }, quota: { from: "Cluster" } };
  return {
    apiVersion: "berth.dev/v1alpha1",
    kind: "Fleet",
    metadata: { name: "bench" },
    spec: { mode: "single", ...places, ...(quota && withQuota), ...given },
  };
}

export interface Shape {
  readonly cities: readonly string[];
  readonly perCity: number;
  /** Each city has a placement of its own, so that the Workload shows the counts of each deployment. Default false. */
  readonly apart?: boolean;
}

/** @param padding characters of one more variable. Default none. */
export function createWorkload(name: string, shape: Shape, padding = 0): RawRequest {
  return post(`${COMPUTE}/workloads`, {
    apiVersion: "compute.datumapis.com/v1alpha",
    kind: "Workload",
    metadata: { name, namespace: NAMESPACE },
    spec: { template: { spec: templateSpec("1", padding) }, placements: placementsOf(shape) },
  });
}

export function deleteWorkload(name: string): RawRequest {
  return { method: "DELETE", path: `${COMPUTE}/workloads/${name}`, body: {} };
}

/** The template with another value of one variable, which rolls all Instances. */
export function roll(name: string, version: string): RawRequest {
  return patchWorkload(name, { template: { spec: templateSpec(version) } });
}

export function scale(name: string, shape: Shape): RawRequest {
  return patchWorkload(name, { placements: placementsOf(shape) });
}

function placementsOf({ cities, perCity, apart = false }: Shape): readonly object[] {
  const scaleSettings = { minReplicas: perCity };
  if (!apart) return [{ name: "all", cityCodes: cities, scaleSettings }];
  return cities.map((city) => ({ name: city.toLowerCase(), cityCodes: [city], scaleSettings }));
}

function patchWorkload(name: string, spec: object): RawRequest {
  return { method: "PATCH", path: `${COMPUTE}/workloads/${name}`, body: { spec } };
}

export function templateSpec(version: string, padding = 0): object {
  const env = Array.from({ length: 8 }, (_, index) => ({
    name: `SETTING_${index}`,
    value: `value-${index}`,
  }));
  const web = {
    name: "web",
    image: "registry.test/shop/web:1.4.2",
    env: [
      ...env,
      { name: "VERSION", value: version },
      ...(padding > 0 ? [{ name: "PADDING", value: "x".repeat(padding) }] : []),
    ],
    ports: [{ name: "http", port: 8080 }],
    resources: { limits: { cpu: "1m", memory: "1Mi" } },
  };
  return {
    runtime: { resources: { instanceType: "datumcloud/d1-standard-2" }, sandbox: { containers: [web] } },
    networkInterfaces: [{ network: { name: "default" } }],
  };
}

/**
 * Waits until `is` holds of all Workloads, and until what follows at once has been written.
 * @returns whether it came so far within `timeoutMs`. @throws when Berth ends.
 */
export async function waitForWorkloads(
  { cluster }: FleetStage,
  berth: MeasuredProcess,
  { is, timeoutMs }: { readonly is: (all: readonly Workload[]) => boolean; readonly timeoutMs: number },
): Promise<boolean> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const { items } = await cluster.client.list(workloads, { namespace: NAMESPACE, resourceVersion: "0" });
    berth.ended.throwIfAborted();
    if (is(items)) break;
    if (performance.now() > deadline) return false;
    await delay(POLL_MS);
  }
  await delay(LATE_MS);
  return true;
}

/** Are there so many Ready Instances of the newest template, and no others? */
export function areReady(all: readonly Workload[], count: number): boolean {
  const sum = (of: (status: NonNullable<Workload["status"]>) => number): number =>
    all.reduce((total, { status }) => total + (status === undefined ? 0 : of(status)), 0);
  const isSeen = all.every(({ metadata, status }) => status?.observedGeneration === metadata?.generation);
  const counts = [
    sum((it) => it.replicas),
    sum((it) => it.readyReplicas),
    sum((it) => it.updatedReplicas ?? 0),
  ];
  return isSeen && counts.every((it) => it === count);
}

export const isRead = ({ verb }: AuditEntry): boolean => verb === "get" || verb === "list";
/** A review asks something, and stores nothing. */
export const isWrite = (entry: AuditEntry): boolean =>
  !isRead(entry) && entry.verb !== "watch" && !/^\w+reviews\./.test(entry.resource);
/** Of leader election. */
const isLease = ({ resource }: AuditEntry): boolean => resource === "leases.coordination.k8s.io";

/** Of this process, without leader election. */
export async function requestsSince(
  { cluster }: FleetStage,
  { userAgent }: MeasuredProcess,
  mark: AuditMark,
): Promise<readonly AuditEntry[]> {
  return (await cluster.audit.entriesSince(mark, { userAgent })).filter((entry) => !isLease(entry));
}

/** The same ones together: `20 patch instances.compute.datumapis.com/status`. */
export function textOf(entries: readonly AuditEntry[]): string {
  const by = Map.groupBy(entries, ({ verb, resource, subresource, code }) =>
    [verb, `${resource}${subresource && `/${subresource}`}`, ...(code < 300 ? [] : [code])].join(" "),
  );
  return [...by].map(([what, all]) => `${all.length} ${what}`).join(", ") || "none";
}
