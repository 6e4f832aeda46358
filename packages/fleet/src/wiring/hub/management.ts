/** Wires a hub into a running Berth: its clusters, what is known of them, and one reconciler for each kind of key. */
import { baseName, createKeySource, type Host } from "@berth/host";
import type { KubeObject } from "@berth/kube";
import {
  type ClusterName,
  type ClusterSet,
  type Component,
  createLoopComponent,
  type FleetView,
  keyOf,
  type ObjectKey,
  type Reconcile,
  sleep,
  whenAborted,
} from "@berth/runtime";
import { isAsked } from "../../admit/review.ts";
import { followFleet } from "../../fleet/follow.ts";
import { type FleetSettings, leaseName } from "../../fleet/settings.ts";
import { type CellSeen, nameOf, uidOf } from "../../hub/cells/seen.ts";
import { addAdmission, type KnownToAdmission } from "../admission.ts";
import { createFleetMetrics } from "../metrics.ts";
import { HubAsk } from "./ask.ts";
import { carry } from "./carry.ts";
import { CellMembers } from "./cell-members.ts";
import { cellStatuses } from "./cells.ts";
import { collect } from "./collect.ts";
import { followPlanes } from "./concerns.ts";
import { federator } from "./federator.ts";
import { followKarmada, policies, policyKeys } from "./karmada.ts";
import { Knowledge, type Place, placeOf } from "./knowledge.ts";
import { Lags } from "./lags.ts";
import { HubMemory } from "./memory.ts";
import { createHubMetrics } from "./metrics.ts";
import { Moves } from "./moves.ts";
import { namesInCells } from "./names-in-cells.ts";
import { Pace } from "./pace.ts";
import { CELL_PACE, type HubKeys, type HubParts } from "./parts.ts";
import { placements } from "./placements.ts";
import { createPlanes, karmadaUnread, type Planes } from "./planes.ts";
import { ProjectMembers } from "./project-members.ts";
import { projector } from "./projector.ts";
import { quarantine } from "./quarantine.ts";
import { presentClient } from "./sender.ts";
import { SigningKey } from "./signing-key.ts";
import { StrayDeployments } from "./strays.ts";
import { carryWithdrawals, endWithdrawals } from "./withdrawals.ts";
import { projectWorkloads } from "./workloads.ts";

/** Between two looks at whether cells are heard, ms. They take no request. */
const LOOK_MS = 1_000;
/** As many decisions for the hub, and for each project, as may be in flight. */
const HUB_WORKERS = 16;

/** @param home Berth's own namespace. */
export function wireManagement(host: Host, settings: FleetSettings, home: string): void {
  const { runtime, clock, log, product } = host;
  const fleet = followFleet(host, settings, ({ projects: listed }) => {
    if (listed !== undefined) projectMembers?.use(listed);
    asked.workloads.askAll();
    asked.federator.askAll();
    admission?.();
  });
  const planes = createPlanes(host, fleet.spec, settings.hub ?? {}, home);
  const { own, hub, projects, cells } = planes;
  const signing = new SigningKey({ planes, home, clock, log });
  const memory = new HubMemory(clock);
  const know = new Knowledge({ planes, clock, signer: () => signing.signer, memory });
  const asked = keySources(planes, know);
  const members = new CellMembers({
    planes,
    home,
    userAgent: settings.hub?.userAgent ?? product.name,
    onChange: (of) => asked.cells.ask([{ cluster: own.name, namespace: "", name: of }], "high", true),
  });
  const toProjects = settings.hub?.projects;
  const projectMembers = toProjects && new ProjectMembers({ planes, projects: toProjects, log });
  const parts: HubParts = {
    host,
    fleet,
    lease: leaseName(fleet.spec, baseName(host)),
    home,
    planes,
    know,
    memory,
    strays: new StrayDeployments({ host, planes, know }),
    moves: new Moves({ clock, know, limits: () => fleet.spec.moves }),
    lags: new Lags(clock),
    cellPace: new Pace(clock, CELL_PACE),
    metrics: createFleetMetrics(host.metrics, clock, () => false),
    counts: createHubMetrics(host.metrics, clock, know, members, planes),
    asked,
    hubClient: presentClient(hub.set, hub.name),
    ownClient: presentClient(own.set, own.name),
  };
  const ask = new HubAsk(parts);
  const admission = isAsked(fleet.spec) ? addAdmission(host, fleet, knownTo(parts)) : undefined;
  followPlanes(parts, ask, () => {
    members.look();
    projectMembers?.look();
  });
  const { karmada } = planes.views;
  if (karmada !== undefined) followKarmada(parts, ask, karmada);
  host.add([members.component(), hearing(parts, ask)], "everywhere");
  if (projectMembers !== undefined) host.add([projectMembers.component()], "everywhere");
  for (const component of [leading(parts), signing.maker(), quarantine(parts)])
    runtime.add(component, "elected", parts.lease);
  const add = (
    set: ClusterSet,
    name: keyof HubKeys,
    reconcile: Reconcile<ObjectKey>,
    concurrency?: number,
  ): void =>
    runtime.add(
      set.controller({
        name: `hub-${name}`,
        sources: [asked[name]],
        reconcile: parts.metrics.measured(name, reconcile),
        ...(concurrency !== undefined && { concurrency }),
      }),
      "elected",
      parts.lease,
    );
  add(projects, "workloads", projectWorkloads(parts), HUB_WORKERS);
  add(projects, "federator", federator(parts), HUB_WORKERS);
  add(hub.set, "placements", placements(parts), HUB_WORKERS);
  add(cells, "carry", carry(parts));
  add(own.set, "withdrawals", endWithdrawals(parts));
  add(cells, "withdrawing", carryWithdrawals(parts));
  add(cells, "collect", collect(parts));
  add(cells, "names", namesInCells(parts, ask));
  add(projects, "projector", projector(parts), HUB_WORKERS);
  add(own.set, "cells", cellStatuses(parts, members));
  if (karmada !== undefined) add(hub.set, "policies", policies(parts, karmada), HUB_WORKERS);
}

function knownTo({ planes, know }: HubParts): KnownToAdmission {
  const { own, views } = planes;
  return {
    // Networks are in cells: Berth reads none here.
    networking: () => false,
    // A Workload may come before the cell of its city.
    cities: () => undefined,
    served: () =>
      views.cells.state(own.name) === "synced" && !karmadaUnread(planes) ? know.cities : undefined,
  };
}

/** This process leads from now on. */
function leading({ memory }: HubParts): Component {
  return {
    name: "hub-memory",
    start(signal) {
      memory.begin();
      return Promise.resolve({ ended: whenAborted(signal) });
    },
  };
}

/** No event says that a cell is not heard any more. Stray deployments may come by the thousand. */
function hearing({ host: { clock }, know, strays, planes, moves }: HubParts, ask: HubAsk): Component {
  const told = new Map<string, string>();
  let restores = 0;
  const look = (seen: CellSeen, isAnew: boolean): void => {
    // Another Cell of the same name has to be told of again.
    const { uid = "" } = seen.cell.metadata ?? {};
    know.heardMs(seen);
    const { state } = seen;
    const isLost = know.lostSinceMs(seen) !== undefined;
    const text = state.is === "synced" ? state.is : `${state.reason} ${state.message} ${isLost}`;
    if (told.get(uid) === text && !isAnew) return;
    told.set(uid, text);
    ask.cell(nameOf(seen) as ClusterName);
  };
  // What came while one of its kinds was not read was not looked at.
  for (const view of Object.values(planes.views.cell) as readonly FleetView<KubeObject>[])
    view.subscribe({
      onState(of) {
        const seen = know.cellOf(of);
        if (seen !== undefined) look(seen, seen.state.is === "synced");
      },
    });
  return createLoopComponent({
    name: "hub-hearing",
    async run(signal) {
      do {
        for (const seen of know.cells) look(seen, false);
        for (const of of strays.due) ask.end(of);
        const { own, hub } = planes;
        const seen = Math.max(own.set.get(own.name)?.restores ?? 0, hub.set.get(hub.name)?.restores ?? 0);
        if (seen > restores) moves.suspect();
        restores = seen;
      } while (await sleep(clock, LOOK_MS, signal));
    },
  });
}

/**
 * All keys that there are, for the start and after a plane was away. Nothing follows from what is not read: its keys are asked
 * for when it is, see `followPlanes` and `hearing`.
 */
function keySources(planes: Planes, know: Knowledge): HubKeys {
  const { own, hub, cells, views, projectNamed } = planes;
  const inProjects = (view: FleetView<KubeObject>): readonly ObjectKey[] =>
    [...projectNamed.values()].flatMap(({ cluster }) => keysOf(view, cluster));
  const inCells = (view: FleetView<KubeObject>): readonly ObjectKey[] =>
    cells.list().flatMap(({ name }) => keysOf(view, name));
  const placed = function* (): Iterable<ObjectKey> {
    for (const { name } of cells.list())
      for (const it of know.placedIn(uidIn(know, name))) yield { cluster: name, ...placeOf(it) };
  };
  const ofProject = ({ cluster }: ObjectKey): boolean => know.project(cluster)?.isSynced === true;
  const ofHub = (): boolean => know.hubUnread() === undefined;
  const ofCell = ({ cluster }: ObjectKey): boolean =>
    ofHub() && Object.values(views.cell).every((it) => it.state(cluster) === "synced");
  const copies = (): readonly Place[] => keysOf(views.hub.instances, hub.name);
  return {
    workloads: createKeySource(() => inProjects(views.workloads)),
    federator: createKeySource(() => inProjects(views.project.deployments), ofProject),
    placements: createKeySource(() => keysOf(views.hub.deployments, hub.name), ofHub),
    carry: createKeySource(() => [...placed(), ...inCells(views.cell.deployments)], ofCell),
    withdrawals: createKeySource(() => keysOf(views.withdrawals, own.name)),
    withdrawing: createKeySource(() =>
      Array.from(views.withdrawals.list(own.name)).flatMap((it) => {
        const cluster = (it.spec?.cell ?? "") as ClusterName;
        return cells.has(cluster) ? [{ ...keyOf(own.name, it), cluster }] : [];
      }),
    ),
    collect: createKeySource(
      () => [
        ...inCells(views.cell.instances),
        ...copies().flatMap(({ namespace, name }) => {
          const cluster = know.cellOfCopy({ namespace, name });
          return cluster === undefined ? [] : [{ cluster, namespace, name }];
        }),
      ],
      ofCell,
    ),
    projector: createKeySource(
      () => [
        ...inProjects(views.project.instances),
        ...copies().flatMap((place) => know.federated(place) ?? []),
      ],
      ofProject,
    ),
    names: createKeySource(() => cells.list().map(({ name }) => ({ cluster: name, namespace: "", name }))),
    cells: createKeySource(() => keysOf(views.cells, own.name)),
    policies: createKeySource(() => policyKeys(planes)),
  };
}

function uidIn(know: Knowledge, cluster: ClusterName): string {
  const cell = know.cellOf(cluster);
  return cell === undefined ? "" : uidOf(cell);
}

function keysOf(view: FleetView<KubeObject>, of: ClusterName): readonly ObjectKey[] {
  return Array.from(view.list(of), (it) => keyOf(of, it));
}
