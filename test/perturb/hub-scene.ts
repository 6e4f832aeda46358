/**
 * The scene of a hub: Berth in mode management, the hub that is the project as well, and one or two cells that the story
 * plays. One of these clusters is recorded and disturbed. The others are as they are, but a dead Berth does not reach them.
 *
 * It is long because it is all that the stories of a hub do and see.
 */
import { notStrictEqual } from "node:assert";
import { servedKinds } from "@berth/cli";
import {
  cells,
  fleetKind,
  instances,
  type Workload,
  type WorkloadDeployment,
  withdrawals,
  workloadDeployments,
  workloads,
} from "@berth/fleet";
import {
  customResourceDefinitions,
  events,
  isApiError,
  type KubeClient,
  type KubeObject,
  leases,
  namespaces,
  nodes,
  pods,
  type Resource,
  secrets,
} from "@berth/kube";
import { findCondition } from "@berth/runtime";
import {
  type Connection,
  eventually,
  type PerturbationStory,
  type Scene,
  type Stage,
  type Step,
  startTcpProxy,
  type TcpProxy,
  type TestCluster,
} from "@berth/testcluster";
import { hubNamespaceOf, annotations as keys } from "../../packages/fleet/src/api/keys.ts";
import { Actor } from "../../packages/fleet/src/testing/actor.ts";
import {
  HOME,
  makeInstance,
  playCells,
  reportInstance,
} from "../../packages/fleet/src/testing/cell-actor.ts";
import { startBerthInStory } from "./berth.ts";
import { type CellPlane, forbiddenOfHub, type HubChange, type Where } from "./hub-verdict.ts";
import { merge, namesOf, noted, SENTINEL } from "./scene.ts";

/** A cluster. Deployments begin in `cell`. */
export type Plane = "hub" | CellPlane;

/** What the steps of a story can do. */
export interface HubActor {
  addWorkload(instances: number): Promise<void>;
  image(image: string): Promise<void>;
  scale(instances: number): Promise<void>;
  annotate(): Promise<void>;
  removeWorkload(): Promise<void>;
  /** In the cell. */
  failInstance(ordinal: number, isFailing: boolean): Promise<void>;
  removeInstance(ordinal: number): Promise<void>;
  remakeInstance(ordinal: number): Promise<void>;
  /** By another program: the copy on the hub, or the Instance in the project. */
  removeShown(ordinal: number, where: "hub" | "project"): Promise<void>;
  /** The connection to the cell is refused, or back. */
  setAway(isAway: boolean): void;
  /** `cell` is drained, and the other one is not any more. */
  drain(): Promise<void>;
  /** All that there was in `cell` is in the other one. */
  isDrained(instances: number): boolean;
  /** All planes say that so many Instances exist, all of them Ready, of the spec of now. */
  isSettled(instances: number): boolean;
  isShownReady(ordinal: number, isReady: boolean): boolean;
  /** How many Instances are in the project, and how many copies on the hub. */
  shown(): readonly [number, number];
  isMarkedStale(): boolean;
  /** Nothing is left: in the project and on the hub, or in the cell as well. */
  isGone(where: "hub" | "everywhere"): boolean;
}

/** The step of a story that is about nothing: Berth writes nothing. */
export const REST = "workload-is-annotated";
/** The step after which `cell` may delete. */
export const DRAIN = "cell-is-drained";
/** The step after which all may delete. */
export const REMOVAL = "workload-is-deleted";

const WORKLOAD = "w";
/** The name of its Cell, which contains that of the sentinel: requests about Cells are no points. */
const cellOf = (plane: CellPlane): string => `${SENTINEL}-${plane}`;
/** Berth's clock runs so many times faster than real time. */
const PACE = 10;
/** Berth in a cell renews its Lease, ms. */
const RENEW_MS = 300;
const resourcesOf = (plane: Plane): readonly Resource[] =>
  plane === "hub"
    ? [workloads, workloadDeployments, instances, withdrawals, cells]
    : [workloadDeployments, instances];
/** What comes by the clock, and what Berth reads beside the fleet. */
const UNPERTURBED: readonly Resource[] = [
  events,
  leases,
  namespaces,
  secrets,
  nodes,
  pods,
  cells,
  customResourceDefinitions,
  ...servedKinds.map(({ resource }) => resource).filter(({ group }) => group === cells.group),
];

export interface HubStory {
  readonly name: string;
  /** Which cluster is disturbed. */
  readonly plane: Plane;
  readonly cells: readonly CellPlane[];
  readonly steps: (actor: HubActor) => readonly Step[];
}

export function hubStory(told: HubStory): PerturbationStory {
  const resources = resourcesOf(told.plane);
  return {
    name: `hub/${told.name}-${told.plane}`,
    resources,
    unperturbed: UNPERTURBED,
    guides: resources.filter((it) => it !== instances),
    oldestView: 1,
    others: told.cells.length,
    setUp: (stage) => setUp(stage, told),
  };
}

async function setUp(stage: Stage, { plane, cells: names, steps }: HubStory): Promise<Scene> {
  const others = [...stage.others];
  const clusters = (["hub", ...names] as const).map((it) => {
    const cluster = it === plane ? stage.cluster : others.shift();
    if (cluster === undefined) throw new Error(`there is no cluster for the plane ${it}`);
    return [it, cluster] as const;
  });
  await using owned = new AsyncDisposableStack();
  const planes = owned.use(new HubPlanes(stage, new Map(clusters)));
  await planes.open();
  const [noting, step] = noted(steps(planes));
  planes.stepNow = step;
  const fence = await planes.sentinel();
  let lives = 0;
  const kept = owned.move();
  return {
    start(connection) {
      lives += 1;
      return planes.startBerth(connection, plane);
    },
    fence: { ...fence, companions: resourcesOf(plane), resource: workloadDeployments, name: SENTINEL },
    steps: noting,
    state: () => planes.state(),
    forbidden: () =>
      forbiddenOfHub(planes.log, {
        steps: namesOf(noting),
        rest: REST,
        removal: REMOVAL,
        drain: DRAIN,
        isOnlyLife: lives === 1,
      }),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** What is there and what has happened, as watches of both clusters say. */
class HubPlanes implements HubActor, AsyncDisposable {
  readonly log: HubChange[] = [];
  stepNow: () => string = () => "start";
  readonly #stage: Stage;
  readonly #clusters: ReadonlyMap<Plane, TestCluster>;
  readonly #owned = new AsyncDisposableStack();
  readonly #objects = new Map<string, KubeObject>();
  /** From the living Berth to the first cell. */
  readonly #links = new Set<TcpProxy>();
  #project = "default";
  #onHub = "";
  #isAway = false;
  #asked = 0;

  constructor(stage: Stage, clusters: ReadonlyMap<Plane, TestCluster>) {
    this.#stage = stage;
    this.#clusters = clusters;
  }

  #clusterOf(plane: Plane): TestCluster {
    const found = this.#clusters.get(plane);
    if (found === undefined) throw new Error(`the story has no plane ${plane}`);
    return found;
  }

  get #hub(): TestCluster {
    return this.#clusterOf("hub");
  }

  get #cells(): readonly CellPlane[] {
    return [...this.#clusters.keys()].filter((it) => it !== "hub");
  }

  get #places(): readonly Where[] {
    return ["project", "hub", ...this.#cells];
  }

  async open(): Promise<void> {
    const { metadata } = await this.#hub.client.get(namespaces, { name: this.#project });
    this.#onHub = hubNamespaceOf(metadata?.uid ?? "");
    for (const [plane, { client }] of this.#clusters) {
      const actor = this.#owned.use(new Actor(client));
      for (const resource of resourcesOf(plane)) await this.#follow(actor, plane, resource);
      if (plane !== "hub") await this.#addCell(plane, client);
    }
  }

  async #addCell(plane: CellPlane, client: KubeClient): Promise<void> {
    const name = this.#stage.nameOf(cellOf(plane));
    this.#owned.use(await playCells(client, [name], { renewMs: RENEW_MS }));
    const { metadata } = await client.get(namespaces, { name: "kube-system" });
    const hub = this.#hub.client;
    await hub.create(secrets, { metadata: { namespace: HOME, name } });
    const spec = { city: "DFW", secretRef: { name }, uid: metadata?.uid ?? "" };
    // Only one cell takes deployments at a time, so that each replay places them alike.
    await hub.create(cells, { metadata: { name }, spec: { ...spec, drain: plane !== "cell" } });
  }

  #follow(actor: Actor, plane: Plane, resource: Resource): Promise<void> {
    return actor.follow<KubeObject>({
      resource,
      act: () => Promise.resolve(),
      onChange: ({ type, object }) => {
        const { name = "", namespace = "" } = object.metadata ?? {};
        const prefix = this.#stage.nameOf("");
        if (!name.includes(prefix)) return;
        const local = name.replace(prefix, "");
        const where: Where = plane === "hub" && namespace === this.#project ? "project" : plane;
        const key = keyOf(where, resource, local);
        const before = this.#objects.get(key);
        if (type === "deleted") this.#objects.delete(key);
        else this.#objects.set(key, object);
        if (!local.includes(SENTINEL))
          this.log.push({
            step: this.stepNow(),
            where,
            resource,
            name: local,
            object,
            before,
            gone: type === "deleted",
          });
        this.#stage.changed();
      },
    });
  }

  #find<T extends KubeObject>(where: Where, resource: Resource<T>, local: string): T | undefined {
    return this.#objects.get(keyOf(where, resource, local)) as T | undefined;
  }

  async startBerth(connection: Connection, plane: Plane): Promise<AsyncDisposable> {
    await using owned = new AsyncDisposableStack();
    const link = async (server: string): Promise<TcpProxy> => {
      const made = owned.use(await startTcpProxy({ target: new URL(server) }));
      connection.death.addEventListener("abort", () => cut(made), { once: true });
      if (connection.death.aborted) cut(made);
      return made;
    };
    const toHub = await link(plane === "hub" ? connection.server : this.#hub.url);
    for (const cell of this.#cells) {
      const cluster = this.#clusterOf(cell);
      const toCell = await link(plane === cell ? connection.server : cluster.url);
      if (cell === "cell") {
        this.#links.add(toCell);
        owned.defer(() => void this.#links.delete(toCell));
        if (this.#isAway) cut(toCell);
      }
      const text = cluster.kubeconfig({ server: toCell.url });
      const data = { kubeconfig: Buffer.from(text).toString("base64") };
      const name = this.#stage.nameOf(cellOf(cell));
      if (!connection.death.aborted)
        await this.#hub.client.patch(secrets, { namespace: HOME, name }, merge({ data }));
    }
    const spec = fleetKind.spec.parse({
      mode: "management",
      hub: "self",
      projects: "self",
      networking: "Off",
    });
    const options = { pace: PACE, namespace: HOME, fleet: { spec } };
    owned.use(await startBerthInStory({ cluster: this.#hub }, { server: toHub.url }, options));
    return owned.move();
  }

  /** A Workload of its own, whose number of Instances goes up and down. */
  async sentinel(): Promise<Pick<Scene["fence"], "change" | "answered" | "guides">> {
    await this.#hub.client.create(workloads, this.#aWorkload(SENTINEL, 1));
    const deployment = `${SENTINEL}-us-dfw`;
    const wanted = (): number => 1 + (this.#asked % 2);
    const change = async (): Promise<void> => {
      this.#asked += 1;
      await this.#patch(SENTINEL, { placements: [placement(wanted())] });
    };
    const isCounted = (): boolean => {
      const onHub = this.#find("hub", workloadDeployments, deployment);
      if (onHub?.spec?.scaleSettings.minReplicas !== wanted()) return false;
      return this.#isAway || this.#isTrue(SENTINEL, deployment, wanted());
    };
    const isShown = (): boolean =>
      this.#isAway ||
      (["project", "hub"] as const).every((where) => this.#reported(where, deployment) === wanted());
    return { change, answered: () => isCounted() && isShown(), guides: { change, answered: isCounted } };
  }

  /** All planes have the same spec, and the numbers of the cell. */
  #isTrue(workload: string, deployment: string, count: number): boolean {
    const held = this.#cells.filter((it) => this.#find(it, workloadDeployments, deployment) !== undefined);
    if (held.length !== 1) return false;
    const all = (["project", "hub", ...held] as const).map((where) =>
      this.#find(where, workloadDeployments, deployment),
    );
    const top = this.#find("project", workloads, workload);
    const [first] = all;
    const isSame = all.every(
      (it) =>
        it?.spec?.scaleSettings.minReplicas === count &&
        imageOf(it) === imageOf(top) &&
        it.status?.readyReplicas === count &&
        it.status.unheard === undefined,
    );
    const isEchoed = first?.status?.observedGeneration === first?.metadata?.generation;
    const isSummed =
      top?.status?.readyReplicas === count && top.status.observedGeneration === top.metadata?.generation;
    return isSame && isEchoed && isSummed;
  }

  state(): unknown {
    const said = (it: Workload | WorkloadDeployment | undefined): unknown =>
      it && [
        imageOf(it),
        [it.status?.replicas, it.status?.readyReplicas, it.status?.desiredReplicas].join(" "),
        (it.status?.conditions ?? [])
          .map(({ type, status, reason }) => `${type}=${status}/${reason}`)
          .toSorted(),
        it.metadata?.deletionTimestamp !== undefined,
        it.status?.observedGeneration === it.metadata?.generation,
        // Which generation of the project its cell has answered.
        it.status && "observedSourceGeneration" in it.status
          ? `${it.status.observedSourceGeneration}` === it.metadata?.annotations?.[keys.sourceGeneration]
          : undefined,
      ];
    return {
      workload: said(this.#find("project", workloads, WORKLOAD)),
      deployments: this.#places.map((where) => said(this.#find(where, workloadDeployments, DEPLOYMENT))),
      instances: this.#places.map((where) =>
        ORDINALS.map((at) => {
          const found = this.#find(where, instances, instanceOf(at));
          return found && (findCondition(found.status?.conditions, "Ready")?.status ?? "none");
        }),
      ),
    };
  }

  #aWorkload(name: string, count: number): Workload {
    return {
      apiVersion: "compute.datumapis.com/v1alpha",
      kind: "Workload",
      metadata: { name: this.#stage.nameOf(name), namespace: this.#project },
      spec: {
        template: {
          spec: {
            runtime: {
              resources: { instanceType: "datumcloud/d1-standard-2" },
              sandbox: { containers: [{ name: "app", image: "app:1" }] },
            },
            networkInterfaces: [{ network: { name: "default" } }],
          },
        },
        placements: [placement(count)],
      },
    };
  }

  #patch(workload: string, spec: object): Promise<unknown> {
    const of = { namespace: this.#project, name: this.#stage.nameOf(workload) };
    return this.#hub.client.patch(workloads, of, merge({ spec }));
  }

  async addWorkload(count: number): Promise<void> {
    await this.#hub.client.create(workloads, this.#aWorkload(WORKLOAD, count));
  }

  async image(image: string): Promise<void> {
    const template = { spec: { runtime: { sandbox: { containers: [{ name: "app", image }] } } } };
    await this.#patch(WORKLOAD, { template });
  }

  async scale(count: number): Promise<void> {
    await this.#patch(WORKLOAD, { placements: [placement(count)] });
  }

  async annotate(): Promise<void> {
    const of = { namespace: this.#project, name: this.#stage.nameOf(WORKLOAD) };
    const annotations = { "example.com/note": "changed" };
    await this.#hub.client.patch(workloads, of, merge({ metadata: { annotations } }));
  }

  async removeWorkload(): Promise<void> {
    const name = this.#stage.nameOf(WORKLOAD);
    await this.#hub.client.delete(workloads, { namespace: this.#project, name });
  }

  async failInstance(ordinal: number, isFailing: boolean): Promise<void> {
    const instance = this.#find("cell", instances, instanceOf(ordinal));
    if (instance !== undefined)
      await reportInstance(this.#clusterOf("cell").client, instance, isFailing ? "False" : "True");
  }

  async removeInstance(ordinal: number): Promise<void> {
    await this.#clusterOf("cell").client.delete(instances, this.#instance(this.#onHub, ordinal));
  }

  async remakeInstance(ordinal: number): Promise<void> {
    const deployment = this.#find("cell", workloadDeployments, DEPLOYMENT);
    if (deployment !== undefined) await makeInstance(this.#clusterOf("cell").client, deployment, ordinal);
  }

  async removeShown(ordinal: number, where: "hub" | "project"): Promise<void> {
    const namespace = where === "hub" ? this.#onHub : this.#project;
    const find = (): string | undefined => this.#find(where, instances, instanceOf(ordinal))?.metadata?.uid;
    const uid = find();
    await this.#hub.client.delete(instances, this.#instance(namespace, ordinal));
    // What comes next would else be taken for what was there before.
    await eventually(() => notStrictEqual(find(), uid));
  }

  #instance(namespace: string, ordinal: number): { readonly namespace: string; readonly name: string } {
    return { namespace, name: this.#stage.nameOf(instanceOf(ordinal)) };
  }

  setAway(isAway: boolean): void {
    this.#isAway = isAway;
    for (const link of this.#links)
      if (isAway) cut(link);
      else link.pass();
  }

  async drain(): Promise<void> {
    for (const plane of ["other-cell", "cell"] as const) {
      const name = this.#stage.nameOf(cellOf(plane));
      await this.#hub.client.patch(cells, { name }, merge({ spec: { drain: plane === "cell" } }));
    }
  }

  isDrained(count: number): boolean {
    const isLeft = [workloadDeployments, instances].every((resource) =>
      [...this.#objects.keys()].every((key) => !key.startsWith(keyOf("cell", resource, ""))),
    );
    return isLeft && this.isSettled(count);
  }

  isSettled(count: number): boolean {
    return this.#isTrue(WORKLOAD, DEPLOYMENT, count) && this.shown().every((it) => it === count);
  }

  isShownReady(ordinal: number, isReady: boolean): boolean {
    return (["hub", "project"] as const).every((where) => {
      const { status } = this.#find(where, instances, instanceOf(ordinal)) ?? {};
      return findCondition(status?.conditions, "Ready")?.status === (isReady ? "True" : "False");
    });
  }

  shown(): readonly [number, number] {
    return [this.#reported("project", DEPLOYMENT), this.#reported("hub", DEPLOYMENT)];
  }

  #reported(where: Where, deployment: string): number {
    const found = ORDINALS.map((at) => this.#find(where, instances, `${deployment}-${at}`));
    return found.filter((it) => it?.status !== undefined).length;
  }

  isMarkedStale(): boolean {
    const { status } = this.#find("project", workloadDeployments, DEPLOYMENT) ?? {};
    return findCondition(status?.conditions, "Stale")?.status === "True";
  }

  isGone(where: "hub" | "everywhere"): boolean {
    const places = where === "hub" ? (["project", "hub"] as const) : this.#places;
    return (
      this.#find("project", workloads, WORKLOAD) === undefined &&
      places.every((it) => this.#find(it, workloadDeployments, DEPLOYMENT) === undefined) &&
      places.every((it) => ORDINALS.every((at) => this.#find(it, instances, instanceOf(at)) === undefined))
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned.disposeAsync();
    for (const [plane, { client }] of this.#clusters)
      for (const resource of resourcesOf(plane)) await this.#clear(client, resource);
    for (const cell of this.#cells)
      await this.#hub.client
        .delete(secrets, { namespace: HOME, name: this.#stage.nameOf(cellOf(cell)) })
        .catch(ignoreGone);
  }

  async #clear(client: KubeClient, resource: Resource): Promise<void> {
    const { items } = await client.list(resource);
    for (const { metadata: { name = "", namespace = "", finalizers = [] } = {} } of items) {
      if (!name.includes(this.#stage.nameOf(""))) continue;
      const of = { name, namespace };
      if (finalizers.length > 0)
        await client.patch(resource, of, merge({ metadata: { finalizers: null } })).catch(ignoreGone);
      await client.delete(resource, of).catch(ignoreGone);
    }
  }
}

const DEPLOYMENT = `${WORKLOAD}-us-dfw`;
/** Of the first placement, and of the one after a drain. */
const ORDINALS: readonly number[] = [0, 1, 2, 1000, 1001];
const instanceOf = (ordinal: number): string => `${DEPLOYMENT}-${ordinal}`;
const keyOf = (where: string, { plural }: Resource, local: string): string => `${where}/${plural}/${local}`;

function placement(minReplicas: number) {
  return { name: "us", cityCodes: ["DFW"], scaleSettings: { minReplicas } };
}

function imageOf(it: Workload | WorkloadDeployment | undefined): string | undefined {
  return it?.spec?.template.spec.runtime.sandbox?.containers[0]?.image;
}

function cut(link: TcpProxy): void {
  link.refuse();
  link.resetAll();
}

function ignoreGone(error: unknown): void {
  if (!isApiError(error, "notFound")) throw error;
}
