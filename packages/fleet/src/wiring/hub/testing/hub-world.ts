/** A hub and the project of one deployment, as the views show them, and a client that only notes what it is sent. */
import { createKeySource } from "@berth/host";
import { ApiError, type ApiFailure, type KubeObject, type Namespace, type Patch } from "@berth/kube";
import {
  type ClusterName,
  clusterName,
  createVirtualClock,
  type EventInput,
  toKeyText,
  type VirtualClock,
} from "@berth/runtime";
import type { Cell, Withdrawal } from "../../../api/cell.ts";
import type { Instance, Workload, WorkloadDeployment } from "../../../api/workload.ts";
import { fleetKind } from "../../../fleet/document.ts";
import { aHubNamespace, aSource, HUB, signer } from "../../../hub/testing/fixtures.ts";
import { HubAsk } from "../ask.ts";
import { followPlanes } from "../concerns.ts";
import { Knowledge } from "../knowledge.ts";
import { HubMemory } from "../memory.ts";
import { Moves } from "../moves.ts";
import { Pace } from "../pace.ts";
import { CELL_PACE, type HubKeys, type HubParts } from "../parts.ts";
import type { Planes } from "../planes.ts";
import { StrayDeployments } from "../strays.ts";
import { Objects } from "./objects.ts";

export const hub: ClusterName = clusterName("hub");
/** The one that is reached. */
export const a: ClusterName = clusterName("a");
const KINDS = "workloads federator placements carry withdrawals withdrawing collect projector names cells";

export interface HubWorld {
  readonly clock: VirtualClock;
  readonly cells: Objects<Cell>;
  readonly withdrawals: Objects<Withdrawal>;
  readonly workloads: Objects<Workload>;
  readonly deployments: Objects<WorkloadDeployment>;
  /** Of the project. */
  readonly sources: Objects<WorkloadDeployment>;
  readonly hubNamespaces: Objects<Namespace>;
  readonly inCell: Objects<WorkloadDeployment>;
  readonly namespacesInCell: Objects<Namespace>;
  /** Of Instances, on the hub. */
  readonly copies: Objects<Instance>;
  readonly projections: Objects<Instance>;
  readonly parts: HubParts;
  /** `reconciler key`, of all that was asked for. */
  readonly asked: string[];
  /** Reasons of Events. */
  readonly recorded: string[];
  /** What was patched on the hub. */
  readonly patches: KubeObject[];
  /** Patches that the hub refuses as they come. */
  readonly refuse: (isRefused: (patch: KubeObject) => ApiFailure | undefined) => void;
}

export function hubWorld(): HubWorld {
  const clock = createVirtualClock();
  const [cells, deployments] = [new Objects<Cell>(hub), new Objects<WorkloadDeployment>(hub)];
  const [inCell, namespacesInCell] = [new Objects<WorkloadDeployment>(a), new Objects<Namespace>(a)];
  const withdrawals = new Objects<Withdrawal>(hub);
  const none = new Objects<never>(hub).view;
  const copies = new Objects<Instance>(hub);
  const instances = copies.view;
  const patches: KubeObject[] = [];
  let isRefused: (patch: KubeObject) => ApiFailure | undefined = () => undefined;
  const client = {
    server: "hub",
    patch(_resource: object, _name: object, { body }: Patch & { readonly body: KubeObject }) {
      const failure = isRefused(body);
      if (failure !== undefined)
        return Promise.reject(new ApiError(failure, { verb: "patch", resource: "workloaddeployments" }));
      patches.push(body);
      return Promise.resolve(body);
    },
  };
  const recorded: string[] = [];
  const events = { record: ({ reason }: EventInput) => void recorded.push(reason) };
  const lease = { object: {}, changedAt: clock.monotonic() };
  const leaseSilentMs = () => clock.monotonic() - lease.changedAt;
  const reach = { is: "yes", heardMs: 0 } as const;
  const engaged = (name: ClusterName, identity: string) =>
    ({ name, identity, client, events, lease, leaseSilentMs, reach, restores: 0 }) as const;
  const all = new Map([
    [hub, engaged(hub, HUB)],
    [a, engaged(a, "uid-a")],
  ]);
  const set = {
    subscribe: () => undefined,
    get: (of: ClusterName) => all.get(of),
    has: (of: ClusterName) => all.has(of),
    list: () => [all.get(a)],
  };
  const workloads = new Objects<Workload>(hub);
  const sources = new Objects<WorkloadDeployment>(hub);
  const projections = new Objects<Instance>(hub);
  const namespaces = new Objects<Namespace>(hub);
  sources.set(aSource());
  namespaces.set(aHubNamespace({}, HUB));
  const namespacesOfProject = new Objects<Namespace>(hub);
  namespacesOfProject.set({ metadata: { name: "default", uid: "U" } });
  const planes = {
    own: { set, name: hub },
    hub: { set, name: hub },
    projects: set,
    cells: set,
    projectNamed: new Map([["web", { cluster: hub, path: "acme/web" }]]),
    views: {
      cells: cells.view,
      withdrawals: withdrawals.view,
      secrets: none,
      workloads: workloads.view,
      project: {
        deployments: sources.view,
        instances: projections.view,
        namespaces: namespacesOfProject.view,
      },
      hub: { deployments: deployments.view, instances, namespaces: namespaces.view },
      cell: { deployments: inCell.view, instances, namespaces: namespacesInCell.view },
    },
  } as unknown as Planes;
  const asked: string[] = [];
  const keys = Object.fromEntries(
    KINDS.split(" ").map((of) => {
      const source = createKeySource(() => []);
      source.start((key) => asked.push(`${of} ${toKeyText(key)}`));
      return [of, source];
    }),
  ) as unknown as HubKeys;
  const memory = new HubMemory(clock);
  const know = new Knowledge({ planes, clock, signer: () => signer, memory });
  const spec = fleetKind.spec.parse({ mode: "management", hub: "self", projects: "self" });
  const host = { clock, metrics: { gauge: () => undefined } } as unknown as HubParts["host"];
  const parts = {
    host,
    strays: new StrayDeployments({ host, planes, know }),
    fleet: { spec },
    planes,
    know,
    memory,
    moves: new Moves({ clock, know, limits: () => spec.moves }),
    cellPace: new Pace(clock, CELL_PACE),
    asked: keys,
    counts: { onHub: () => undefined, changed: () => undefined },
  } as unknown as HubParts;
  followPlanes(parts, new HubAsk(parts), () => undefined);
  return {
    clock,
    cells,
    withdrawals,
    workloads,
    deployments,
    sources,
    projections,
    hubNamespaces: namespaces,
    inCell,
    namespacesInCell,
    copies,
    parts,
    asked,
    recorded,
    patches,
    refuse: (refused) => {
      isRefused = refused;
    },
  };
}
