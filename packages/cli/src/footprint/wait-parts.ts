/** What has pods of Deployments wait for the agents of footprints, put together. */
import { deployments, type KubeClient, nameOfResource } from "@berth/kube";
import {
  createWaitReconciler,
  type Footprint,
  type FootprintJudgement,
  type Footprints,
  type NeedPlace,
  type NeedSight,
  reasons,
  WaitWatch,
} from "@berth/placement";
import {
  type Clock,
  type ClusterName,
  type Component,
  type Controller,
  createController,
  type EventRecorder,
  type Logger,
  type MetricsRegistry,
} from "@berth/runtime";
import { MissingRights } from "../missing-rights.ts";

export interface WaitPartsOptions {
  readonly client: KubeClient;
  readonly cluster: ClusterName;
  /** Of this Berth, as its records on nodes name it. */
  readonly installation: string;
  readonly sight: NeedSight;
  /** Whether the API server asks about new pods that are to wait. */
  readonly admission: () => FootprintJudgement | undefined;
  readonly events: EventRecorder;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
}

export interface WaitParts {
  /** The footprints in force from now on. */
  want(footprints: Footprints): void;
  /** Whether pods need the agent may be another there. */
  lookAgain(where: NeedPlace): void;
  /** What keeps Deployments from being changed. */
  problem(footprint: Footprint): string | undefined;
  /** Whether its pods are made to wait; `undefined` while that cannot be told. */
  judge(footprint: Footprint): FootprintJudgement | undefined;
  /** What the leader runs. */
  readonly components: readonly Component[];
}

export function createWaitParts(options: WaitPartsOptions): WaitParts {
  const { client, cluster, installation, sight, admission, events, ...common } = options;
  const rights = new MissingRights();
  let inForce: Footprints | undefined;
  const watch = new WaitWatch({
    ...common,
    client,
    cluster,
    installation,
    onDeployment: (key) => controller.enqueue(key),
  });
  const controller: Controller = createController({
    ...common,
    name: "footprint-waits",
    reconcile: createWaitReconciler({
      deployments: watch,
      footprints: () => inForce,
      sight,
      client: rights.listenTo(client),
      installation,
      events,
      clock: common.clock,
    }),
  });
  const problem = ({ wait }: Footprint): string | undefined =>
    wait?.inject === "ServerSideApply"
      ? (watch.problem() ?? rights.why([nameOfResource(deployments)]))
      : undefined;
  return {
    want(footprints) {
      inForce = footprints;
      watch.want(footprints.footprints);
    },
    lookAgain: (where) => watch.lookAgain(where),
    problem,
    judge(footprint) {
      if (footprint.wait?.inject === "Webhook") return admission();
      const why = problem(footprint);
      return why === undefined
        ? {
            ready: true,
            reason: reasons.AgentWaitSet,
            message: "pods of Deployments wait by their templates",
          }
        : {
            ready: false,
            reason: reasons.FootprintHindered,
            message: `Deployments stay as they are: ${why}`,
          };
    },
    components: [withoutProblem(watch), controller],
  };
}

/** What it cannot read is said in the conditions of those footprints that need it. The process serves others. */
function withoutProblem(component: Component): Component {
  return { name: component.name, start: (signal) => component.start(signal) };
}
