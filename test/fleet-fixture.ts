/** A cluster that runs Workloads: `berth run` as its own manifests install it, and what tests of the fleet ask for. */
import { deepStrictEqual, ok } from "node:assert";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  type FleetSpec,
  type Instance,
  instances,
  type Workload,
  type WorkloadDeployment,
  workloadDeployments,
  workloads,
} from "@berth/fleet";
import {
  type Condition,
  clusterRoles,
  type Deployment,
  events,
  isApiError,
  type KubeClient,
  type KubeObject,
  namespaces,
  nodes,
  type Pod,
  type PolicyRule,
  pods,
  type Resource,
  serviceAccounts,
} from "@berth/kube";
import {
  type AuditEntry,
  type AuditMark,
  aNode,
  eventually,
  findFreePort,
  type TestCluster,
  type TestUser,
} from "@berth/testcluster";
import { installedKinds, permissionsOf } from "../packages/cli/src/testing/installed.ts";
import { Actor } from "../packages/fleet/src/testing/actor.ts";
import { runCommand } from "./command.ts";
import { argumentsOfPod } from "./deployment-pod.ts";
import { patiently } from "./patience.ts";
import { type BerthProcess, type BerthProcessOptions, startBerthProcess } from "./product.ts";

/** Berth's namespace, its account there, and the name of its installation. */
const NAME = "berth-fleet";
const ACCOUNT = `system:serviceaccount:${NAME}:${NAME}`;
export const INSTANCE_TYPE = "datumcloud/d1-standard-2";
export const IMAGE = "registry.test/web:1";
/** kwok plays a kubelet that cannot pull it. */
export const BAD_IMAGE = "registry.test/pull-failure:1";

export interface FleetOptions {
  /** `spec` of the document Fleet. `quota.kubeconfig: quota` is the file with `quota`. */
  readonly spec: Pick<FleetSpec, "mode"> &
    Partial<Omit<FleetSpec, "providers">> & { readonly providers?: Partial<FleetSpec["providers"]> };
  /** Text of the kubeconfig of the quota service. */
  readonly quota?: string;
  /** Text of a `WorkloadOperator` of a cell, in place of the Fleet. Its Berth is a pod of the printed Deployment. */
  readonly operator?: string;
}

export class FleetFixture implements AsyncDisposable {
  readonly cluster: TestCluster;
  readonly client: KubeClient;
  /** Berth's account. */
  readonly user: TestUser;
  readonly #folder: string;
  readonly #deployment: Deployment;
  readonly #mark: AuditMark;
  readonly #owned: AsyncDisposableStack;
  #replicas = 0;

  constructor(
    cluster: TestCluster,
    user: TestUser,
    { folder, deployment }: { readonly folder: string; readonly deployment: Deployment },
    mark: AuditMark,
    owned: AsyncDisposableStack,
  ) {
    this.cluster = cluster;
    this.client = cluster.client;
    this.user = user;
    this.#folder = folder;
    this.#deployment = deployment;
    this.#mark = mark;
    this.#owned = owned;
  }

  /** Resolves once it is ready, and leads unless there is another replica. The caller ends it. */
  async start(...args: readonly string[]): Promise<BerthProcess> {
    const berth = this.spawn(...args);
    await berth.ready();
    return berth;
  }

  /** A pod of the Deployment that its manifests print, with the Secrets that exist now. Waits for nothing. */
  async spawnPod(): Promise<BerthProcess> {
    const { environment, args } = this.#ofProcess();
    const ofPod = await argumentsOfPod(this.#deployment, this.client, path.join(this.#folder, "pod"));
    return startBerthProcess({ args: [...ofPod, ...args], environment });
  }

  /** The paths that its Deployment has probed. */
  get probes(): readonly string[] {
    const { livenessProbe, readinessProbe } = this.#deployment.spec?.template.spec?.containers[0] ?? {};
    return [livenessProbe, readinessProbe].map((it) => it?.httpGet?.path ?? "");
  }

  /** Waits for nothing. */
  spawn(...given: readonly string[]): BerthProcess {
    const config = ["--config", path.join(this.#folder, "fleet.yaml")];
    const identity = ["--namespace", NAME, "--installation", "fleet"];
    const { environment, args } = this.#ofProcess();
    return startBerthProcess({ args: ["run", ...config, ...identity, ...args, ...given], environment });
  }

  /** What differs from a pod in a cluster: how it finds the API server, and addresses that no other process has. */
  #ofProcess(): Required<Pick<BerthProcessOptions, "args" | "environment">> {
    const addresses = ["--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0"];
    const connection = ["--kubeconfig", path.join(this.#folder, "kubeconfig")];
    this.#replicas += 1;
    return { args: [...addresses, ...connection], environment: { POD_NAME: `${NAME}-${this.#replicas}` } };
  }

  async namespace(name: string, labels: Readonly<Record<string, string>> = {}): Promise<string> {
    const { metadata } = await this.client.create(namespaces, { metadata: { name, labels } });
    // The API server refuses pods before the namespace has its account.
    await eventually(() => this.client.get(serviceAccounts, { namespace: name, name: "default" }));
    return metadata?.name ?? "";
  }

  /** Requests of Berth's account that its rights or its policy refused: `patch pods default/a`. */
  async refused(): Promise<readonly string[]> {
    const entries = await this.cluster.audit.entriesSince(this.#mark, { user: ACCOUNT });
    ok(entries.length > 0, "the audit log has no request of Berth");
    return entries
      .filter(({ code }) => code === 401 || code === 403)
      .map((it) => `${it.verb} ${it.resource}/${it.subresource} ${it.namespace}/${it.name}`);
  }

  /** What its role for the fleet permits, and it has not asked for: `delete pods`. */
  async unused(): Promise<readonly string[]> {
    const { rules = [] } = await this.client.get(clusterRoles, { name: `${NAME}-fleet` });
    return rightsUnused(rules, await this.cluster.audit.entriesSince(this.#mark, { user: ACCOUNT }));
  }

  /** What Berth's account asked since then, Leases and Events aside: `create pods/ a/w-us-dfw-0`. */
  async requestsSince(mark: AuditMark, verbs: readonly string[] = WRITES): Promise<readonly string[]> {
    const entries = await this.cluster.audit.entriesSince(mark, { user: ACCOUNT });
    return entries
      .filter(({ verb, resource }) => verbs.includes(verb) && !/^(?:leases|events)\./.test(resource))
      .map((it) => `${it.verb} ${it.resource}/${it.subresource} ${it.namespace}/${it.name}`);
  }

  /** All that Berth's account asked since then, discovery included: paths with their queries. */
  async urisSince(mark: AuditMark): Promise<readonly string[]> {
    const entries = await this.cluster.audit.entriesSince(mark, { user: ACCOUNT });
    return entries.map(({ requestUri }) => requestUri);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#owned.disposeAsync();
  }
}

/** What rules of the fleet permit, and none of the requests has asked for. */
export function rightsUnused(
  rules: readonly PolicyRule[],
  entries: readonly Pick<AuditEntry, "verb" | "resource" | "subresource">[],
): readonly string[] {
  const used = new Set(
    entries.map((it) => `${it.verb} ${it.resource}${it.subresource && `/${it.subresource}`}`),
  );
  // A watch lists first where the API server does not stream what there is (before 1.34).
  const isUsed = (right: string): boolean => used.has(right) || used.has(right.replace(/^list /, "watch "));
  // The API server asks for `finalizers` by itself, and webhooks are no matter of the fleet alone.
  const asked = permissionsOf(rules).filter(
    ([name = ""]) => !/\/finalizers$|webhookconfigurations/.test(name),
  );
  return asked.flatMap((names) => (isUsed(names[0]?.split(" ", 2).join(" ") ?? "") ? [] : names));
}

export const WRITES: readonly string[] = ["create", "update", "patch", "delete", "deletecollection"];

/** Three nodes, and Berth's account with the rights and the policy that `berth manifests` prints for this Fleet. */
export async function fleetFixture(
  cluster: TestCluster,
  { spec, quota, operator }: FleetOptions,
): Promise<FleetFixture> {
  await using owned = new AsyncDisposableStack();
  const folder = owned.use(await mkdtempDisposable(path.join(tmpdir(), "berth-fleet-"))).path;
  const file = (name: string, text: string): Promise<void> =>
    writeFile(path.join(folder, name), text, { mode: 0o600 });
  const address = `127.0.0.1:${await findFreePort()}`;
  const server = { bindAddress: address, url: `https://${address}` };
  const documents = [
    { kind: "Fleet", spec },
    // Cells have no webhooks.
    ...(spec.mode === "single" ? [{ kind: "AdmissionServer", spec: server }] : []),
  ];
  const common = { apiVersion: "berth.dev/v1alpha1", metadata: { name: "fleet" } };
  await file(
    "fleet.yaml",
    documents.map((it) => JSON.stringify(Object.assign({}, common, it))).join("\n---\n"),
  );
  if (quota !== undefined) await file("quota", quota);
  if (operator !== undefined) await file("config.yaml", operator);
  const { client } = cluster;
  const how =
    operator === undefined
      ? ["--config", path.join(folder, "fleet.yaml")]
      : ["--server-config", path.join(folder, "config.yaml"), "--enable-cell-controllers"];
  const deployment = await install(client, how);
  const token = await issueToken(client, { namespace: NAME, name: NAME });
  const user = { name: ACCOUNT, groups: [], token };
  await file("kubeconfig", cluster.kubeconfig({ user }));
  for (const name of ["fleet-1", "fleet-2", "fleet-3"])
    await client.create(nodes, aNode(name).fake().build()).catch(ignoreExisting);
  await patiently(async () => {
    const { items } = await client.list(nodes);
    deepStrictEqual(
      items.flatMap((node) => node.spec?.taints ?? []),
      [],
    );
  });
  return new FleetFixture(cluster, user, { folder, deployment }, await cluster.audit.mark(), owned.move());
}

async function install(client: KubeClient, how: readonly string[]): Promise<Deployment> {
  const what = ["--image", "registry.test/berth:1", "--namespace", NAME, "--installation", "fleet"];
  const items = await applyPrinted(client, ...how, ...what);
  return items.find(({ kind }) => kind === "Deployment") ?? {};
}

/** Applies what `berth manifests` prints, without the Deployment: the process of the test is its pod. */
export async function applyPrinted(
  client: KubeClient,
  ...args: readonly string[]
): Promise<readonly KubeObject[]> {
  const printed = await runCommand("manifests", ...args, "--output", "json");
  // Before the list, it may name the rights that are unusual, and what has no effect.
  const { items } = JSON.parse(printed.slice(printed.indexOf("{"))) as {
    readonly items: readonly KubeObject[];
  };
  for (const item of items) {
    if (item.kind === "Deployment") continue;
    const resource = installedKinds.find(({ kind }) => kind === item.kind);
    ok(resource !== undefined, `no resource for ${item.kind}`);
    await client.apply(resource, item, { fieldManager: "installer", force: true });
  }
  return items;
}

/** Of an account. */
export async function issueToken(
  client: KubeClient,
  of: { readonly namespace: string; readonly name: string },
): Promise<string> {
  const request = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: {} };
  const answer = await client.create(serviceAccounts, request, { subresource: "token", ...of });
  return (answer as { readonly status?: { readonly token?: string } }).status?.token ?? "";
}

function ignoreExisting(error: unknown): void {
  if (!isApiError(error, "alreadyExists")) throw error;
}

export interface WorkloadChoice {
  readonly namespace: string;
  /** Default `w`. */
  readonly name?: string;
  /** In each city. Default 1. */
  readonly replicas?: number;
  /** Of the placement `us`. Default `DFW`. */
  readonly cities?: readonly string[];
  /** Default one that runs. */
  readonly image?: string;
  /** Of the template. */
  readonly metadata?: NonNullable<Workload["spec"]>["template"]["metadata"];
}

export function aWorkload({
  namespace,
  name = "w",
  replicas = 1,
  cities = ["DFW"],
  image = IMAGE,
  metadata,
}: WorkloadChoice): Workload {
  return {
    apiVersion: "compute.datumapis.com/v1alpha",
    kind: "Workload",
    metadata: { namespace, name },
    spec: {
      template: {
        ...(metadata && { metadata }),
        spec: {
          runtime: {
            resources: { instanceType: INSTANCE_TYPE },
            sandbox: { containers: [{ name: "web", image }] },
          },
          networkInterfaces: [{ network: { name: "default" } }],
        },
      },
      placements: [{ name: "us", cityCodes: cities, scaleSettings: { minReplicas: replicas } }],
    },
  };
}

export function createWorkload(client: KubeClient, choice: WorkloadChoice): Promise<Workload> {
  return client.create(workloads, aWorkload(choice));
}

/** A deployment as the federation brings it to a cell. */
export function aDeployment({
  namespace,
  name = "w",
  replicas = 1,
  ...choice
}: WorkloadChoice): WorkloadDeployment {
  const { spec } = aWorkload({ namespace, ...choice });
  return {
    apiVersion: "compute.datumapis.com/v1alpha",
    kind: "WorkloadDeployment",
    metadata: { namespace, name: `${name}-us-dfw` },
    spec: {
      workloadRef: { name, uid: `uid-of-${name}` },
      placementName: "us",
      cityCode: "DFW",
      template: spec?.template ?? {
        spec: { runtime: { resources: { instanceType: "" } }, networkInterfaces: [] },
      },
      scaleSettings: { minReplicas: replicas },
    },
  };
}

export function conditionOf(object: KubeObject, type: string): Condition | undefined {
  const { status } = object as { readonly status?: { readonly conditions?: readonly Condition[] } };
  return status?.conditions?.find((it) => it.type === type);
}

/** `True/Available` */
export function verdict(object: KubeObject, type: string): string {
  const { status, reason } = conditionOf(object, type) ?? {};
  return `${status}/${reason}`;
}

/** What is in a namespace: lists are sorted by name. */
export class Look {
  readonly #client: KubeClient;
  readonly #namespace: string;

  constructor(client: KubeClient, namespace: string) {
    this.#client = client;
    this.#namespace = namespace;
  }

  workload(name = "w"): Promise<Workload> {
    return this.#get(workloads, name);
  }

  deployment(name = "w-us-dfw"): Promise<WorkloadDeployment> {
    return this.#get(workloadDeployments, name);
  }

  instance(name = "w-us-dfw-0"): Promise<Instance> {
    return this.#get(instances, name);
  }

  pod(name = "w-us-dfw-0"): Promise<Pod> {
    return this.#get(pods, name);
  }

  deployments(): Promise<readonly WorkloadDeployment[]> {
    return this.all(workloadDeployments);
  }

  instances(): Promise<readonly Instance[]> {
    return this.all(instances);
  }

  pods(): Promise<readonly Pod[]> {
    return this.all(pods);
  }

  async all<T extends KubeObject>(resource: Resource<T>): Promise<readonly T[]> {
    const { items } = await this.#client.list(resource, { namespace: this.#namespace });
    return items.toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
  }

  /** `w-us-dfw-0: ImageUnavailable` of each Event. */
  async eventReasons(): Promise<readonly string[]> {
    return (await this.all(events)).map(({ reason, regarding }) => `${regarding?.name}: ${reason}`);
  }

  /** Waits until exactly these Instances exist, all Ready. */
  running(...names: readonly string[]): Promise<readonly Instance[]> {
    return patiently(async () => {
      const found = await this.instances();
      const seen = found.map((it) => `${nameOf(it)} ${verdict(it, "Ready")}`);
      deepStrictEqual(
        seen,
        names.map((name) => `${name} True/Available`),
      );
      return found;
    });
  }

  /** Waits until nothing is left of what the fleet makes. */
  empty(): Promise<void> {
    return patiently(async () => {
      for (const resource of [workloads, workloadDeployments, instances, pods] as readonly Resource[])
        deepStrictEqual((await this.all(resource)).map(nameOf), []);
    });
  }

  #get<T extends KubeObject>(resource: Resource<T>, name: string): Promise<T> {
    return this.#client.get(resource, { namespace: this.#namespace, name });
  }
}

export const nameOf = ({ metadata }: KubeObject): string => metadata?.name ?? "";
export const uidOf = ({ metadata }: KubeObject): string => metadata?.uid ?? "";
export const lookAt = (client: KubeClient, namespace: string): Look => new Look(client, namespace);

/** Merges into the spec of a Workload. A list replaces a list. */
export function changeWorkload(
  client: KubeClient,
  namespace: string,
  spec: object,
  name = "w",
): Promise<Workload> {
  return client.patch(workloads, { namespace, name }, { type: "merge", body: { spec } });
}

export const imageChange = (image: string): object => ({
  template: { spec: { runtime: { sandbox: { containers: [{ name: "web", image }] } } } },
});

export const scaleChange = (minReplicas: number, cityCodes: readonly string[] = ["DFW"]): object => ({
  placements: [{ name: "us", cityCodes, scaleSettings: { minReplicas } }],
});

/** What happened to Instances of a namespace, in order. */
export interface History extends AsyncDisposable {
  /** `create w-us-dfw-0`, `ready …`, `delete …` (asked to go), `gone …`. */
  readonly steps: readonly string[];
  /** The most Instances that were down at once, of those that had been Ready. */
  readonly mostDown: number;
}

export async function followInstances(client: KubeClient, namespace: string): Promise<History> {
  const steps: string[] = [];
  const actor = new Actor(client);
  const wereReady = new Set<string>();
  const areReady = new Set<string>();
  let mostDown = 0;
  const note = (step: string, name: string): void => {
    steps.push(`${step} ${name}`);
  };
  await actor.follow({
    resource: instances,
    act: () => Promise.resolve(),
    onChange(change) {
      const { object, type } = change;
      const { name = "", deletionTimestamp, namespace: own } = object.metadata ?? {};
      if (own !== namespace) return;
      const old = type === "updated" ? change.old : undefined;
      if (type === "added") note("create", name);
      if (type === "deleted") return note("gone", name);
      const isReady = verdict(object, "Ready") === "True/Available" && deletionTimestamp === undefined;
      if (isReady && !areReady.has(name)) note("ready", name);
      if (deletionTimestamp !== undefined && old?.metadata?.deletionTimestamp === undefined)
        note("delete", name);
      if (isReady) {
        wereReady.add(name);
        areReady.add(name);
      } else areReady.delete(name);
      mostDown = Math.max(mostDown, wereReady.size - areReady.size);
    },
  });
  return {
    steps,
    get mostDown() {
      return mostDown;
    },
    [Symbol.asyncDispose]: () => actor[Symbol.asyncDispose](),
  };
}

/** Every `updatedReplicas` of the Workload, by the generation that its status is about. */
export async function followCounts(
  client: KubeClient,
  namespace: string,
): Promise<AsyncDisposable & { readonly updated: (observedGeneration: number) => readonly number[] }> {
  const statuses: Workload["status"][] = [];
  const actor = new Actor(client);
  await actor.follow({
    resource: workloads,
    act: () => Promise.resolve(),
    onChange({ object: { metadata, status } }) {
      if (metadata?.namespace === namespace && metadata.name === "w") statuses.push(status);
    },
  });
  const updated = (observedGeneration: number): readonly number[] =>
    statuses.flatMap((it) =>
      it?.observedGeneration === observedGeneration ? (it.updatedReplicas ?? []) : [],
    );
  return { updated, [Symbol.asyncDispose]: () => actor[Symbol.asyncDispose]() };
}

/** What says that a namespace serves the city. */
export const aLocation = (name: string, city: string, namespace = "default") => ({
  metadata: { namespace, name },
  spec: {
    locationClassName: "self-managed",
    topology: { "topology.datum.net/city-code": city },
    provider: {},
  },
});
