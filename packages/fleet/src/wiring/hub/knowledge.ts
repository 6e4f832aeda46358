/** What the views say, in the words of the decisions. Nothing is kept here but when cells were heard. */
import { type Namespace, pathOf } from "@berth/kube";
import {
  type Clock,
  type ClusterName,
  type EngagedCluster,
  type FleetView,
  keyOf,
  type ObjectKey,
  toKeyText,
} from "@berth/runtime";
import type { Cell, Withdrawal } from "../../api/cell.ts";
import {
  deploymentOfInstance,
  hubNamespaceOf,
  annotations as keys,
  labels,
  ordinalOf,
  projectOfNamespace,
} from "../../api/keys.ts";
import type { Signer } from "../../api/origin.ts";
import { type CellPlacement, hasSlot, parsePlacement, targetsOf } from "../../api/placement.ts";
import { type Seen, seenOf } from "../../api/seen.ts";
import type { Instance, WorkloadDeployment } from "../../api/workload.ts";
import {
  adopted,
  assignedTo,
  type CellSeen,
  type Found,
  foundIn,
  isFullWith,
  nameOf,
} from "../../hub/cells/seen.ts";
import { type Choice, type ChoiceView, choose } from "../../hub/placement/choose.ts";
import { type ProjectSeen, recordOf, type Source, sourceOf } from "../../hub/source.ts";
import { by } from "../reads.ts";
import { cellState, UNHEARD_MS } from "./cell-state.ts";
import type { HubMemory } from "./memory.ts";
import { once } from "./once.ts";
import { citiesServed, hubBy, karmadaUnread, type ObjectViews, type Planes } from "./planes.ts";

/** A deployment of the hub, or its namesake in a cell. */
export interface Place {
  readonly namespace: string;
  readonly name: string;
}

export interface KnowledgeOptions {
  readonly planes: Planes;
  readonly clock: Clock;
  /** `undefined`: the key of the signatures is not read yet, or is of another hub. */
  readonly signer: () => Signer | undefined;
  readonly memory: Pick<HubMemory, "isAbsent">;
}

export class Knowledge {
  readonly #planes: Planes;
  readonly #clock: Clock;
  readonly #signer: () => Signer | undefined;
  readonly #memory: Pick<HubMemory, "isAbsent">;
  /** Wall clock, by the uid of the cell. */
  readonly #heardMs = new Map<string, number>();
  /** By the uid of the cell: the name under which Berth runs there, where that is not the one of its Cell. */
  readonly #names = new Map<string, string>();
  readonly #startedMs: number;

  constructor({ planes, clock, signer, memory }: KnowledgeOptions) {
    this.#planes = planes;
    this.#clock = clock;
    this.#signer = signer;
    this.#memory = memory;
    this.#startedMs = clock.now();
  }

  /** Why nothing may follow from what the hub does not have. `undefined`: it is read. */
  hubUnread(): string | undefined {
    const { own, hub, views } = this.#planes;
    const { hub: of } = views;
    const onHub = [of.deployments, of.instances, of.namespaces].map((it) => it.state(hub.name));
    const onOwn = [views.cells, views.withdrawals].map((it) => it.state(own.name));
    const reach = hub.set.get(hub.name)?.reach;
    if (reach?.is === "no") return `the hub does not answer (${reach.cause}): ${reach.message}`;
    if (onHub.some((it) => it !== "synced")) return "the hub is not read yet";
    if (onOwn.some((it) => it !== "synced")) return "Cells and Withdrawals are not read yet";
    return this.#signer() === undefined
      ? "the key of the signatures is not read yet, or is of another hub"
      : karmadaUnread(this.#planes);
  }

  /** When a hub that does not answer was heard last. Wall clock, ms. */
  get hubSinceMs(): number | undefined {
    const { hub } = this.#planes;
    const reach = hub.set.get(hub.name)?.reach;
    return reach?.is === "no" ? reach.since : undefined;
  }

  get hubUid(): string {
    return this.#planes.hub.set.get(this.#planes.hub.name)?.identity ?? "";
  }

  get signer(): Signer {
    const signer = this.#signer();
    if (signer === undefined) throw new Error("the key of the signatures was not read");
    return signer;
  }

  hubKey(place: Place): ObjectKey {
    return { cluster: this.#planes.hub.name, namespace: place.namespace, name: place.name };
  }

  /**
   * Is it a namespace that Berth made on the hub? Where the hub is a project too, only this tells its objects from those
   * that users write. Its labels may have been edited since.
   */
  isOfHub(namespace: string): boolean {
    const { labels: found = {}, annotations = {} } = this.hubNamespace(namespace)?.metadata ?? {};
    const hasMarks =
      found[labels.upstreamCluster] !== undefined ||
      found[labels.upstreamNamespace] !== undefined ||
      annotations[keys.projectUid] !== undefined;
    return hasMarks && namespace.startsWith(hubNamespaceOf(""));
  }

  /** The deployments of the hub that are placed in a cell, or move there. */
  placedIn(cellUid: string): readonly WorkloadDeployment[] {
    const { hub, views } = this.#planes;
    return views.hub.deployments
      .byIndex(hubBy.cellUid, cellUid, hub.name)
      .filter(({ metadata }) => this.isOfHub(metadata?.namespace ?? ""));
  }

  /** Texts of the keys of the deployments that become ready in another cell. */
  movingTo(): ReadonlySet<string> {
    const { hub, views } = this.#planes;
    const all = views.hub.deployments.byIndex(hubBy.move, "next", hub.name);
    return new Set(all.map((it) => toKeyText(keyOf(hub.name, it))));
  }

  onHub(place: Place): WorkloadDeployment | undefined {
    if (!this.isOfHub(place.namespace)) return undefined;
    return this.#planes.views.hub.deployments.get(this.hubKey(place));
  }

  hubNamespace(name: string): Namespace | undefined {
    const { hub, views } = this.#planes;
    return views.hub.namespaces.get({ cluster: hub.name, namespace: "", name });
  }

  /** The key in its project. `undefined`: its namespace says no project, or there is none of that name. */
  upstream({ namespace, name }: Place): ObjectKey | undefined {
    const marks = this.hubNamespace(namespace);
    const project = this.#planes.projectNamed.get((marks && projectOfNamespace(marks)) ?? "");
    const upstream = marks?.metadata?.labels?.[labels.upstreamNamespace];
    return project && upstream ? { cluster: project.cluster, namespace: upstream, name } : undefined;
  }

  /** The same, where only a look follows from it: the namespace on the hub may be gone, or not made yet. */
  federated(place: Place): ObjectKey | undefined {
    const known = this.upstream(place);
    if (known !== undefined) return known;
    const { projectNamed, views } = this.#planes;
    for (const { cluster } of projectNamed.values()) {
      const [it] = views.project.namespaces.byIndex(hubBy.hubNamespace, place.namespace, cluster);
      if (it !== undefined) return { cluster, namespace: it.metadata?.name ?? "", name: place.name };
    }
    return undefined;
  }

  project(of: ClusterName): ProjectSeen | undefined {
    const { projects, projectNamed, views } = this.#planes;
    // The name of a project is that of its cluster, but for Berth's own.
    const plane = projectNamed.get(of) ?? [...projectNamed.values()].find(({ cluster }) => cluster === of);
    const uid = projects.get(of)?.identity;
    if (plane === undefined || uid === undefined) return undefined;
    const { deployments, instances, namespaces } = views.project;
    const isSynced = [deployments, instances, namespaces].every((it) => it.state(of) === "synced");
    return { path: plane.path, uid, isSynced };
  }

  /** The deployment in the project that has the name of this one of the hub. */
  wished(place: Place): WorkloadDeployment | undefined {
    const key = this.upstream(place);
    return key && this.#planes.views.project.deployments.get(key);
  }

  /** `gone` only with a proof: see `isUnproven`. */
  source(place: Place, sourceUid: string): Source {
    return this.#sourceOf(place, sourceUid, this.#isAbsent(place, sourceUid));
  }

  /** As the view of the project says, which may be behind. Nothing may be deleted for it. */
  shownSource(place: Place, sourceUid: string): Source {
    return this.#sourceOf(place, sourceUid, true);
  }

  /** The project does not seem to have it: an uncached read has to show that. */
  isUnproven(place: Place, sourceUid: string): boolean {
    return this.shownSource(place, sourceUid) === "gone" && !this.#isAbsent(place, sourceUid);
  }

  #isAbsent(place: Place, sourceUid: string): boolean {
    const key = this.upstream(place);
    return key !== undefined && this.#memory.isAbsent(key.cluster, sourceUid);
  }

  #sourceOf(place: Place, sourceUid: string, isAbsenceProven: boolean): Source {
    const { annotations } = this.hubNamespace(place.namespace)?.metadata ?? {};
    const key = this.upstream(place);
    const { namespaces } = this.#planes.views.project;
    const namespace = key && namespaces.get({ ...key, namespace: "", name: key.namespace });
    return sourceOf({
      sourceUid,
      projectUid: annotations?.[keys.projectUid],
      project: key && this.project(key.cluster),
      isOfNamespace: hubNamespaceOf(namespace?.metadata?.uid ?? "") === place.namespace,
      deployment: this.wished(place),
      isAbsenceProven,
    });
  }

  get cells(): readonly CellSeen[] {
    const { own, views } = this.#planes;
    return Array.from(views.cells.list(own.name), (cell) => this.#seen(cell));
  }

  /** City codes of all cells. */
  get cities(): ReadonlySet<string> {
    return citiesServed(this.#planes);
  }

  cellOf(cluster: ClusterName): CellSeen | undefined {
    const { own, views } = this.#planes;
    const cell = views.cells.get({ cluster: own.name, namespace: "", name: cluster });
    return cell && this.#seen(cell);
  }

  /** The Cell of the cluster with this uid. */
  cellWith(uid: string): CellSeen | undefined {
    const { own, views } = this.#planes;
    const [cell] = views.cells.byIndex(hubBy.cellUid, uid, own.name);
    return cell && this.#seen(cell);
  }

  /** The Cells of a city, and others that have a deployment of this place, or should have it. */
  cellsFor(place: Place, city: string, placement: CellPlacement | undefined): readonly CellSeen[] {
    const { own, views } = this.#planes;
    const found = new Set(views.cells.byIndex(by.city, city, own.name));
    for (const { uid } of targetsOf(placement))
      for (const cell of views.cells.byIndex(hubBy.cellUid, uid, own.name)) found.add(cell);
    for (const cluster of views.cell.deployments.having(pathOf(place))) {
      const cell = views.cells.get({ cluster: own.name, namespace: "", name: cluster });
      if (cell !== undefined) found.add(cell);
    }
    return Array.from(found, (cell) => this.#seen(cell));
  }

  /** The uid of the cell that an Instance of the hub is of. `undefined`: none has its ordinal. */
  holderOf({ namespace, name }: Place): string | undefined {
    const deployment = this.onHub({ namespace, name: deploymentOfInstance(name) ?? "" });
    const placement = parsePlacement(deployment?.metadata?.annotations?.[keys.placement]);
    return targetsOf(placement).find((it) => hasSlot(it, ordinalOf(name)))?.uid;
  }

  /** The cluster that the copy of an Instance comes from, or should come from. It has joined. */
  cellOfCopy(place: Place): ClusterName | undefined {
    const copy = this.#planes.views.hub.instances.get(this.hubKey(place));
    const deployment = this.onHub({ ...place, name: deploymentOfInstance(place.name) ?? "" });
    const placed = parsePlacement(deployment?.metadata?.annotations?.[keys.placement])?.uid;
    // A cell that was given up would never say that it has none.
    const uid = this.holderOf(place) ?? placed ?? copy?.metadata?.annotations?.[keys.cellUid] ?? "";
    const name = this.cellWith(uid)?.cell.metadata?.name as ClusterName | undefined;
    return name !== undefined && this.#planes.cells.has(name) ? name : undefined;
  }

  engaged({ cell }: CellSeen): EngagedCluster | undefined {
    // The name of a Cell is that of its cluster.
    return this.#planes.cells.get((cell.metadata?.name ?? "") as ClusterName);
  }

  /** The copies of the Instances of a deployment of the hub. */
  copiesOf({ metadata }: WorkloadDeployment): readonly Instance[] {
    const { hub, views } = this.#planes;
    return views.hub.instances
      .byIndex(by.deployment, metadata?.uid ?? "", hub.name)
      .filter((it) => it.metadata?.namespace === metadata?.namespace);
  }

  /**
   * Since when nothing is known of the cell: wall clock, ms. `undefined`: it is read. A pause of a watch is no loss, nor
   * is a cell that this process has only begun to read.
   */
  lostSinceMs(seen: CellSeen): number | undefined {
    if (seen.state.is === "synced") return undefined;
    const sinceMs = this.heardMs(seen);
    const isDefinite = seen.state.reason !== "CellUnreachable" || this.engaged(seen)?.reach.is === "no";
    return isDefinite || this.#clock.now() - sinceMs >= UNHEARD_MS ? sinceMs : undefined;
  }

  /** When the cell was heard last. Wall clock, ms. */
  heardMs({ cell, state }: CellSeen): number {
    const uid = cell.spec?.uid ?? "";
    if (state.is === "synced") this.#heardMs.set(uid, this.#clock.now());
    return this.#heardMs.get(uid) ?? this.#startedMs;
  }

  /** @param name the one under which Berth runs in the cell, where it is another. @returns whether that is news. */
  runsAs(cellUid: string, name: string | undefined): boolean {
    if (this.#names.get(cellUid) === name) return false;
    if (name === undefined) this.#names.delete(cellUid);
    else this.#names.set(cellUid, name);
    return true;
  }

  wrongNameIn({ cell }: CellSeen): string | undefined {
    return this.#names.get(cell.spec?.uid ?? "");
  }

  #seen(cell: Cell): CellSeen {
    const { uid = "" } = cell.spec ?? {};
    const [state, placed] = [once(() => cellState(cell, this.#planes)), once(() => this.placedIn(uid))];
    const assigned = once(() => assignedTo(uid, placed()));
    return {
      cell,
      hasApis: true,
      isAccepting: true,
      get state() {
        return state();
      },
      get assigned() {
        return assigned();
      },
      get isFull() {
        return isFullWith(placed());
      },
    };
  }

  /**
   * Deployments of this place in cells that are synced, and the uids of cells where it is not of this hub.
   *
   * @param cells those of `cellsFor`, or fewer.
   * @param wished the deployment in the project. Default: the one that `wished` gives.
   */
  inCells(
    place: Place,
    cells: readonly CellSeen[],
    wished?: WorkloadDeployment,
  ): { readonly found: readonly Found[]; readonly foreign: ReadonlySet<string> } {
    const foreign = new Set<string>();
    const found = cells.flatMap((cell) => {
      const key = { ...place, cluster: nameOf(cell) as ClusterName };
      const deployment = this.#planes.views.cell.deployments.get(key);
      if (deployment === undefined || cell.state.is !== "synced") return [];
      const ours = foundIn(cell, deployment, { hub: this.hubUid, signer: this.signer });
      if (ours === undefined) foreign.add(cell.cell.spec?.uid ?? "");
      return ours === undefined ? [] : adopted(ours, this.onHub(place), wished ?? this.wished(place));
    });
    return { found, foreign };
  }

  inCell<T extends object>(
    cell: CellSeen | undefined,
    { namespace, name }: Place,
    select: (views: ObjectViews) => Pick<FleetView<T>, "get">,
  ): Seen<T> {
    if (cell?.state.is !== "synced")
      return { is: "unknown", because: cell?.state.message ?? "there is no Cell" };
    const cluster = (cell.cell.metadata?.name ?? "") as ClusterName;
    return seenOf(select(this.#planes.views.cell).get({ cluster, namespace, name }));
  }

  withdrawals({ namespace, name }: Place): readonly Withdrawal[] {
    const { own, views } = this.#planes;
    return views.withdrawals.byIndex(hubBy.place, `${namespace}/${name}`, own.name);
  }

  choose(
    place: Place,
    wished: WorkloadDeployment | undefined,
    view: Pick<ChoiceView, "city" | "sourceUid" | "placement" | "ranBefore" | "cells" | "found">,
  ): Choice {
    return choose({
      ...view,
      recorded: wished && recordOf(wished, this.signer),
      withdrawals: this.withdrawals(place),
    });
  }
}

export function placeOf({ metadata }: { readonly metadata?: { namespace?: string; name?: string } }): Place {
  return { namespace: metadata?.namespace ?? "", name: metadata?.name ?? "" };
}
