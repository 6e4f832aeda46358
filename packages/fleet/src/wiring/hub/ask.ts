/** Asks the reconcilers of a hub to look again. */
import { type KubeObject, pathOf } from "@berth/kube";
import { type ClusterName, keyOf, type ObjectKey } from "@berth/runtime";
import { instanceName, annotations as keys } from "../../api/keys.ts";
import { isOwnedBy } from "../../api/owner.ts";
import { parsePlacement, targetsOf } from "../../api/placement.ts";
import type { WorkloadDeployment } from "../../api/workload.ts";
import { boundedCount } from "../../deployment/build.ts";
import { isDeleting, sourceUidOf } from "../../hub/source.ts";
import { by } from "../reads.ts";
import { type Place, placeOf } from "./knowledge.ts";
import type { HubParts } from "./parts.ts";
import { hubBy } from "./planes.ts";

export type Asking = Pick<HubParts, "planes" | "know" | "asked">;

export type Urgency = readonly [priority: "low" | "high", immediate: boolean];

export const URGENT: Urgency = ["high", true];
/** What follows from many objects at once: a change of one of them overtakes it. */
export const BULK: Urgency = ["low", false];

export class HubAsk {
  readonly #parts: Asking;
  readonly #urgency: Urgency;

  constructor(parts: Asking, urgency = URGENT) {
    this.#parts = parts;
    this.#urgency = urgency;
  }

  /** All that looks at one deployment, but for its Instances. */
  around(place: Place): void {
    const { know, asked } = this.#parts;
    const upstream = know.federated(place);
    if (upstream !== undefined) asked.federator.ask([upstream], ...this.#urgency);
    asked.placements.ask([know.hubKey(place)], ...this.#urgency);
    const deployment = know.onHub(place);
    if (deployment !== undefined) this.cellsOf(deployment);
  }

  /** The cells that have a deployment of the hub, or should have it. */
  cellsOf(deployment: WorkloadDeployment): void {
    const { planes, know, asked } = this.#parts;
    const place = placeOf(deployment);
    const placement = parsePlacement(deployment.metadata?.annotations?.[keys.placement]);
    const clusters = new Set(planes.views.cell.deployments.having(pathOf(place)));
    for (const { uid } of targetsOf(placement)) {
      const { cell } = know.cellWith(uid) ?? {};
      if (cell === undefined) continue;
      const name = (cell.metadata?.name ?? "") as ClusterName;
      clusters.add(name);
      // Its end, or that of its drain, waits for the last deployment that names it. It may be one that is not connected.
      if (isDeleting(cell) || cell.spec?.drain === true) this.end(name);
    }
    for (const cluster of clusters)
      if (planes.cells.has(cluster)) asked.carry.ask([{ cluster, ...place }], ...this.#urgency);
  }

  /** The copy of an Instance, and what its project sees of it. */
  instance(place: Place): void {
    const { know, asked } = this.#parts;
    this.projection(place);
    const cluster = know.cellOfCopy(place);
    if (cluster !== undefined) asked.collect.ask([{ cluster, ...place }], ...this.#urgency);
  }

  projection(place: Place): void {
    const { know, asked } = this.#parts;
    const upstream = know.federated(place);
    if (upstream !== undefined) asked.projector.ask([upstream], ...this.#urgency);
  }

  /** All that a project shows of the Instances of one of its deployments, though hub and cell have none of them. */
  projectionsOf(of: ClusterName, deploymentUid: string): void {
    const { planes, asked } = this.#parts;
    const shown = planes.views.project.instances.byIndex(by.deployment, deploymentUid, of);
    asked.projector.ask(keysIn(shown, of));
  }

  /** The Instances of a deployment of the hub: in its cell, and copied. */
  instancesOf(place: Place): void {
    const { planes, know, asked } = this.#parts;
    const deployment = know.onHub(place);
    if (deployment === undefined) return;
    for (const copy of know.copiesOf(deployment)) this.instance(placeOf(copy));
    // Copies of the original may have no owner.
    for (let ordinal = 0; planes.views.karmada && ordinal < boundedCount(deployment); ordinal += 1)
      this.instance({ ...place, name: instanceName(place.name, ordinal) });
    const { deployments, instances } = planes.views.cell;
    for (const name of deployments.having(pathOf(place))) {
      const inCell = deployments.get({ cluster: name, ...place });
      if (inCell === undefined) continue;
      const all = instances.byIndex(by.deployment, inCell.metadata?.uid ?? "", name);
      asked.collect.ask(all.filter((it) => isOwnedBy(it, inCell)).map((it) => keyOf(name, it)));
    }
  }

  /** The deployments of projects whose namespace on the hub this is. */
  federatedTo(namespace: string): void {
    const { planes, know, asked } = this.#parts;
    const upstream = know.federated({ namespace, name: "" });
    if (upstream === undefined) return;
    const { cluster, namespace: of } = upstream;
    const all = planes.views.project.deployments.byIndex(by.namespace, of, cluster);
    asked.federator.ask(all.map((it) => keyOf(cluster, it)));
  }

  withdrawal(withdrawal: KubeObject & { readonly spec?: { readonly cell: string } }): void {
    const { planes, asked } = this.#parts;
    const key = keyOf(planes.own.name, withdrawal);
    asked.withdrawals.ask([key], ...this.#urgency);
    const cluster = (withdrawal.spec?.cell ?? "") as ClusterName;
    if (planes.cells.has(cluster)) asked.withdrawing.ask([{ ...key, cluster }], ...this.#urgency);
  }

  /** The status of a Cell, and its end. */
  end(of: ClusterName): void {
    const { planes, asked } = this.#parts;
    asked.cells.ask([{ cluster: planes.own.name, namespace: "", name: of }], ...this.#urgency);
  }

  /** The numbers of the deployments that are placed in a cell, whether there is a Cell for it or not. */
  placedIn(cellUid: string): void {
    const { planes, know, asked } = this.#parts;
    asked.placements.ask(know.placedIn(cellUid).map((it) => keyOf(planes.hub.name, it)));
  }

  /** The reach of a cell, or what is read of it, has changed. */
  cell(of: ClusterName): void {
    const { planes, know, asked } = this.#parts;
    const { own, hub, views, cells } = planes;
    const bulk = new HubAsk(this.#parts, BULK);
    this.end(of);
    const { uid = "", city = "" } = know.cellOf(of)?.cell.spec ?? {};
    // They may be in any cell of their city, and wait until all of these are read.
    for (const it of views.hub.deployments.byIndex(hubBy.unread, city, hub.name)) this.around(placeOf(it));
    // What leaves cells of its city may wait for this one.
    for (const { spec } of views.cells.byIndex(by.city, city, own.name))
      if (spec?.drain === true && spec.uid !== uid) this.placedIn(spec.uid);
    // Deployments that leave the cell move in this order.
    for (const it of know.placedIn(uid).toSorted(byPlace)) {
      asked.placements.ask([keyOf(hub.name, it)]);
      if (cells.has(of)) asked.carry.ask([{ cluster: of, ...placeOf(it) }]);
      for (const copy of know.copiesOf(it)) bulk.instance(placeOf(copy));
      const upstream = know.federated(placeOf(it));
      if (upstream !== undefined) this.projectionsOf(upstream.cluster, sourceUidOf(it) ?? "");
    }
    for (const it of views.withdrawals.byIndex(hubBy.cellUid, uid, own.name)) bulk.withdrawal(it);
    if (cells.has(of)) {
      asked.names.ask([{ cluster: of, namespace: "", name: of }]);
      const inCell = Array.from(views.cell.deployments.list(of));
      asked.carry.ask(inCell.map((it) => keyOf(of, it)));
      // It may be placed elsewhere, and show that this cell has it too.
      asked.placements.ask(inCell.map((it) => know.hubKey(placeOf(it))));
      asked.collect.ask(Array.from(views.cell.instances.list(of), (it) => keyOf(of, it)));
    }
    this.unplaced(city);
  }

  /** Workloads of a city, and its deployments that wait for a cell. */
  unplaced(city: string): void {
    const { planes, know, asked } = this.#parts;
    const { workloads, project } = planes.views;
    for (const { cluster } of planes.projectNamed.values()) {
      asked.workloads.ask(keysIn(workloads.byIndex(by.city, city, cluster), cluster));
      for (const it of project.deployments.byIndex(by.city, city, cluster)) {
        const namespace = it.metadata?.annotations?.[keys.federationNamespace];
        if (namespace !== undefined && know.onHub({ namespace, name: placeOf(it).name }) === undefined)
          asked.federator.ask([keyOf(cluster, it)]);
      }
    }
  }

  /** They need no Instances: a project may not let Berth read those. */
  workloads(of: ClusterName): void {
    const { planes, asked } = this.#parts;
    asked.workloads.ask(keysIn(planes.views.workloads.list(of), of));
  }

  project(of: ClusterName): void {
    const { planes, know, asked } = this.#parts;
    const { project, hub } = planes.views;
    const bulk = new HubAsk(this.#parts, BULK);
    this.workloads(of);
    asked.projector.ask(keysIn(project.instances.list(of), of));
    asked.federator.ask(keysIn(project.deployments.list(of), of));
    for (const it of hub.deployments.list(planes.hub.name)) {
      if (know.federated(placeOf(it))?.cluster !== of) continue;
      bulk.around(placeOf(it));
      bulk.instancesOf(placeOf(it));
    }
  }

  all(): void {
    for (const keysOf of Object.values(this.#parts.asked)) keysOf.askAll();
  }
}

function byPlace({ metadata: one }: KubeObject, { metadata: other }: KubeObject): number {
  return pathOf(one) < pathOf(other) ? -1 : 1;
}

function keysIn(objects: Iterable<KubeObject>, of: ClusterName): readonly ObjectKey[] {
  return Array.from(objects, (it) => keyOf(of, it));
}
