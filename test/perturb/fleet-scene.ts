/** The scene of a Workload: what surrounds Berth, the actor of a story, a sentinel, and the state that counts. */
import {
  fleetKind,
  type Instance,
  instances,
  type Workload,
  workloadDeployments,
  workloads,
} from "@berth/fleet";
import { events, namespaces, nodes, pods, serviceAccounts } from "@berth/kube";
import { findCondition } from "@berth/runtime";
import type { Connection, PerturbationStory, Scene, Stage, Step } from "@berth/testcluster";
import { resourceClaims } from "../../packages/fleet/src/api/quota.ts";
import { type BerthInStory, startBerthInStory } from "./berth.ts";
import type { AskedWrite, StoryWrite } from "./deschedule-writes.ts";
import { type FleetControllers, startFleetControllers } from "./fleet-controllers.ts";
import { forbiddenOfFleet } from "./fleet-verdict.ts";
import { type Guides, merge, namesOf, noted, SENTINEL } from "./scene.ts";

const WORKLOAD = "w";
const MOST_INSTANCES = 3;

/** What the steps of a story can do. */
export interface WorkloadActor {
  readonly addWorkload: (instances: number) => Promise<void>;
  readonly image: (image: string) => Promise<void>;
  readonly restartedAt: (time: string) => Promise<void>;
  readonly scale: (instances: number) => Promise<void>;
  readonly annotate: () => Promise<void>;
  readonly removeWorkload: () => Promise<void>;
  readonly setBudget: (instances: number) => void;
  readonly removeInstance: (ordinal: number) => Promise<void>;
  /** Another program takes all finalizers off it. */
  readonly stripInstance: (ordinal: number) => Promise<void>;
  /** With a finalizer, the claim stays once it is deleted, until the quota service has let go of it. */
  readonly holdClaim: (ordinal: number, isHeld: boolean) => Promise<void>;
  /** Uid of the Instance that is there. */
  readonly uidOf: (ordinal: number) => string | undefined;
  readonly isDenied: (ordinal: number) => boolean;
  readonly isClaimEnding: (ordinal: number) => boolean;
  /** So many Instances exist, all of them Ready and of the wanted template. */
  readonly isSettled: (instances: number) => boolean;
  readonly isGone: () => boolean;
}

export interface FleetPlot {
  /** Absent: no quota service is configured. */
  readonly budget?: number;
  /** How many times faster than real time Berth's clock runs. */
  readonly pace: number;
  steps(actor: WorkloadActor): readonly Step[];
}

/** The step of a story that is about nothing: Berth writes nothing. */
export const REST = "workload-is-annotated";

export function fleetStory(
  name: string,
  plot: FleetPlot,
  options: Pick<PerturbationStory, "oldestView"> = {},
): PerturbationStory {
  return {
    name,
    ...options,
    resources: [workloads, workloadDeployments, instances, pods, resourceClaims],
    ownStatusOf: [workloads],
    unperturbed: [events, namespaces, serviceAccounts, nodes],
    guides: [workloads, workloadDeployments, pods, resourceClaims],
    setUp: (stage) => setUpFleetScene(stage, plot),
  };
}

async function setUpFleetScene(stage: Stage, plot: FleetPlot): Promise<Scene> {
  await using owned = new AsyncDisposableStack();
  const controllers = owned.use(
    await startFleetControllers({
      client: stage.cluster.client,
      run: stage.nameOf(""),
      isSentinel: (name) => name.includes(stage.nameOf(SENTINEL)),
    }),
  );
  controllers.setBudget(plot.budget ?? 0);
  const fence = await createSentinel(stage, plot, controllers);
  const writes: StoryWrite[] = [];
  const steps = plot.steps(createWorkloadActor(stage, controllers));
  const [noting, step] = noted(steps);
  const note = (life: number) => (asked: AskedWrite) => {
    const prefix = stage.nameOf("");
    const write: StoryWrite = { ...asked, name: asked.name.replace(prefix, ""), step: step(), life };
    if (asked.name.includes(prefix) && !write.name.includes(SENTINEL)) writes.push(write);
    return write;
  };
  const kept = owned.move();
  return {
    start: (connection) => startFleet(stage, connection, plot, note(connection.incarnation)),
    fence,
    steps: noting,
    state: () => stateOf(stage),
    forbidden: (all) =>
      forbiddenOfFleet(
        all.filter(({ name }) => !name.includes(SENTINEL)),
        {
          steps: namesOf(steps),
          rest: REST,
          hasQuota: plot.budget !== undefined,
          writes,
          ended: controllers.ended,
        },
      ),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

function startFleet(
  stage: Stage,
  connection: Connection,
  { pace, budget }: FleetPlot,
  note: BerthInStory["note"],
): Promise<AsyncDisposable> {
  const spec = fleetKind.spec.parse({
    mode: "single",
    cities: ["DFW"],
    networking: "Off",
    ...(budget !== undefined && { project: { id: "web" }, quota: { from: "Cluster" } }),
  });
  return startBerthInStory(stage, connection, { pace, ...(note && { note }), fleet: { spec } });
}

function aWorkload(name: string, minReplicas: number): Workload {
  return {
    apiVersion: "compute.datumapis.com/v1alpha",
    kind: "Workload",
    metadata: { name, namespace: "default" },
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
      placements: [placement({ minReplicas })],
    },
  };
}

function placement(scaleSettings: { readonly minReplicas: number; readonly maxReplicas?: number }) {
  return { name: "us", cityCodes: ["DFW"], scaleSettings };
}

const DEPLOYMENT = `${WORKLOAD}-us-dfw`;
const instanceOf = (ordinal: number): string => `${DEPLOYMENT}-${ordinal}`;
const claimOf = (ordinal: number): string => `instance-${instanceOf(ordinal)}`;

function createWorkloadActor(stage: Stage, controllers: FleetControllers): WorkloadActor {
  const editTemplate = async (template: object): Promise<void> => {
    await stage.patch(workloads, WORKLOAD, merge({ spec: { template } }));
  };
  return {
    async addWorkload(minReplicas) {
      await stage.create(workloads, aWorkload(WORKLOAD, minReplicas));
    },
    image: (image) => {
      const containers = [{ name: "app", image }];
      return editTemplate({ spec: { runtime: { sandbox: { containers } } } });
    },
    restartedAt: (time) =>
      editTemplate({ metadata: { annotations: { "compute.datumapis.com/restartedAt": time } } }),
    async scale(minReplicas) {
      await stage.patch(workloads, WORKLOAD, merge({ spec: { placements: [placement({ minReplicas })] } }));
    },
    async annotate() {
      const annotations = { "example.com/note": "changed" };
      await stage.patch(workloads, WORKLOAD, merge({ metadata: { annotations } }));
    },
    removeWorkload: () => stage.remove(workloads, WORKLOAD),
    setBudget: (count) => controllers.setBudget(count),
    removeInstance: (ordinal) => stage.remove(instances, instanceOf(ordinal)),
    async stripInstance(ordinal) {
      await stage.patch(instances, instanceOf(ordinal), merge({ metadata: { finalizers: null } }));
    },
    async holdClaim(ordinal, isHeld) {
      const finalizers = isHeld ? ["quota.example.com/release"] : null;
      await stage.patch(resourceClaims, claimOf(ordinal), merge({ metadata: { finalizers } }));
    },
    uidOf: (ordinal) => stage.latest(instances, instanceOf(ordinal))?.metadata?.uid,
    isDenied: (ordinal) => {
      const { status } = stage.latest(instances, instanceOf(ordinal)) ?? {};
      return findCondition(status?.conditions, "QuotaGranted")?.reason === "QuotaExceeded";
    },
    isClaimEnding: (ordinal) =>
      stage.latest(resourceClaims, claimOf(ordinal))?.metadata?.deletionTimestamp !== undefined,
    isSettled: (count) => {
      const { status } = stage.latest(workloads, WORKLOAD) ?? {};
      const deployment = stage.latest(workloadDeployments, DEPLOYMENT);
      const isNew = [stage.latest(workloads, WORKLOAD), deployment].every(
        (one) => one?.status?.observedGeneration === one?.metadata?.generation,
      );
      const counts = [deployment?.status, status].flatMap((it) => [
        it?.replicas,
        it?.readyReplicas,
        it?.updatedReplicas,
        it?.desiredReplicas,
      ]);
      const isRunning = Array.from({ length: count }, (_, at) => stage.latest(pods, instanceOf(at))).every(
        (pod) => pod !== undefined && pod.metadata?.deletionTimestamp === undefined,
      );
      return isNew && isRunning && counts.every((it) => it === count);
    },
    isGone: () => stage.latest(workloads, WORKLOAD) === undefined,
  };
}

function stateOf(stage: Stage): unknown {
  const workload = stage.latest(workloads, WORKLOAD);
  const deployment = stage.latest(workloadDeployments, DEPLOYMENT);
  const sums = [workload, deployment].map((one) => {
    if (one === undefined) return undefined;
    const { status: { replicas, readyReplicas, updatedReplicas, desiredReplicas, conditions } = {} } = one;
    return {
      counts: [replicas, readyReplicas, updatedReplicas, desiredReplicas].join(" "),
      conditions: conditions?.map(({ type, status, reason }) => `${type}=${status}/${reason}`).toSorted(),
      isOfSpec: one.status?.observedGeneration === one.metadata?.generation,
    };
  });
  return { sums, instances: Array.from({ length: MOST_INSTANCES }, (_, at) => instanceState(stage, at)) };
}

function instanceState(stage: Stage, ordinal: number): unknown {
  const instance = stage.latest(instances, instanceOf(ordinal));
  const pod = stage.latest(pods, instanceOf(ordinal));
  const claim = stage.latest(resourceClaims, claimOf(ordinal));
  const said = (type: string): string => {
    const { status, reason } = findCondition(instance?.status?.conditions, type) ?? {};
    return `${type}=${status}/${reason}`;
  };
  return {
    instance: instance && [
      imageOf(instance),
      said("Ready"),
      said("QuotaGranted"),
      (instance.spec?.controller?.schedulingGates ?? []).map(({ name }) => name).join(),
      instance.metadata?.deletionTimestamp !== undefined,
    ],
    pod: pod && [pod.spec?.containers[0]?.image, pod.metadata?.deletionTimestamp !== undefined],
    claim: claim && [
      findCondition(claim.status?.conditions, "Granted")?.status,
      claim.metadata?.deletionTimestamp !== undefined,
    ],
  };
}

function imageOf({ spec }: Instance): string | undefined {
  return spec?.runtime.sandbox?.containers[0]?.image;
}

/**
 * A Workload of its own with one Instance. Berth answers for Workloads and deployments when `maxReplicas` comes and
 * goes. It answers for the rest when the pod becomes Ready or not, and when the claim says something else.
 */
async function createSentinel(
  stage: Stage,
  { budget }: FleetPlot,
  controllers: FleetControllers,
): Promise<Scene["fence"]> {
  let asked = 0;
  let round = 0;
  const deployment = `${SENTINEL}-us-dfw`;
  const isLimited = (): boolean => asked % 2 === 1;
  await stage.create(workloads, aWorkload(SENTINEL, 1));
  const guides: Guides = {
    async change() {
      asked += 1;
      const scaleSettings = { minReplicas: 1, ...(isLimited() && { maxReplicas: 2 }) };
      await stage.patch(workloads, SENTINEL, merge({ spec: { placements: [placement(scaleSettings)] } }));
    },
    answered() {
      const { status } = stage.latest(workloads, SENTINEL) ?? {};
      const made = stage.latest(workloadDeployments, deployment);
      const isScaling = findCondition(status?.conditions, "Scaling") !== undefined;
      const isFollowed = (made?.spec?.scaleSettings.maxReplicas !== undefined) === isLimited();
      const isSeen = made !== undefined && made.status?.observedGeneration === made.metadata?.generation;
      return isScaling === isLimited() && isFollowed && isSeen;
    },
  };
  return {
    resource: workloads,
    companions: [workloadDeployments, instances, pods, resourceClaims],
    name: SENTINEL,
    async change() {
      round += 1;
      controllers.setRound(round);
      await guides.change();
    },
    answered() {
      const wanted = round % 2 === 1;
      const { status } = stage.latest(instances, `${deployment}-0`) ?? {};
      const granted = findCondition(status?.conditions, "QuotaGranted");
      const isReady = findCondition(status?.conditions, "Ready")?.status === "True";
      const isCounted = [
        stage.latest(workloads, SENTINEL),
        stage.latest(workloadDeployments, deployment),
      ].every((one) => one?.status?.readyReplicas === (wanted ? 1 : 0));
      const isTold = budget === undefined || granted?.message === `round ${round}`;
      return status !== undefined && isReady === wanted && isCounted && isTold && guides.answered();
    },
    guides,
  };
}
