/** Which keys a change of a plane concerns. Each change asks for all that may follow from it, and for nothing else. */
import type { KubeObject } from "@berth/kube";
import {
  and,
  type Change,
  type ClusterName,
  changed,
  type FleetView,
  fromStates,
  isInitial,
  keyOf,
  type ObjectKey,
  or,
} from "@berth/runtime";
import { deploymentOfInstance, annotations as keys } from "../../api/keys.ts";
import { ownerOf } from "../../api/owner.ts";
import type { WorkloadDeployment } from "../../api/workload.ts";
import { by } from "../reads.ts";
import { type Asking, BULK, type HubAsk, URGENT, type Urgency } from "./ask.ts";
import { type Place, placeOf } from "./knowledge.ts";
import type { HubParts } from "./parts.ts";
import { SIGNING_KEY } from "./signing-key.ts";

type Following = Asking & Pick<HubParts, "counts" | "memory" | "strays">;

/** @param onCells called when a Cell or a Secret changed. */
export function followPlanes(
  { planes, know, asked, counts, memory, strays }: Following,
  ask: HubAsk,
  onCells: () => void,
): void {
  const { own, hub, projects, cells, views } = planes;
  const isProject = (of: ClusterName): boolean => know.project(of) !== undefined;

  // Before the others: they ask for what follows from it.
  for (const view of [views.project.deployments, views.hub.instances, views.cell.instances])
    (view as FleetView<KubeObject>).subscribe({
      onChange({ type, object }, of) {
        if (type === "deleted") memory.absent(of, object.metadata?.uid ?? "");
      },
    });
  views.workloads.subscribe({
    onChange: (change, of) => asked.workloads.ask([keyOf(of, change.object)], ...urgency(change)),
  });
  onNews(views.project.deployments, (change, of) => {
    if (!isProject(of)) return;
    const { object } = change;
    asked.federator.ask([keyOf(of, object)], ...URGENT);
    const { namespace = "" } = object.metadata ?? {};
    const owner = ownerOf(object);
    if (owner !== undefined) asked.workloads.ask([{ cluster: of, namespace, name: owner.name }], ...URGENT);
    const recorded = object.metadata?.annotations?.[keys.federationNamespace];
    if (recorded === undefined || !isWish(change)) return;
    ask.projectionsOf(of, object.metadata?.uid ?? "");
    ask.around({ namespace: recorded, name: placeOf(object).name });
    ask.instancesOf({ namespace: recorded, name: placeOf(object).name });
  });
  onNews(views.project.namespaces, ({ type, object: { metadata } }, of) => {
    if (!isProject(of) || type === "updated") return;
    const inside = (it: KubeObject): ObjectKey => keyOf(of, it);
    const { name = "" } = metadata ?? {};
    asked.workloads.ask(views.workloads.byIndex(by.namespace, name, of).map(inside));
    asked.federator.ask(views.project.deployments.byIndex(by.namespace, name, of).map(inside));
  });
  onNews(views.project.instances, ({ object }, of) => {
    if (isProject(of)) asked.projector.ask([keyOf(of, object)], ...URGENT);
  });
  onNews(views.hub.deployments, (change) => {
    for (const place of fromStates<WorkloadDeployment, Place>((it) => [placeOf(it)])(change))
      ask.around(place);
    for (const state of statesOf(change)) ask.cellsOf(state);
    if (isPlacing(change)) ask.instancesOf(placeOf(change.object));
  });
  onNews(views.hub.namespaces, ({ object: { metadata } }, of) => {
    for (const it of views.hub.deployments.byIndex(by.namespace, metadata?.name ?? "", of))
      ask.around(placeOf(it));
    // A deployment that is not there yet waits for the namespace.
    ask.federatedTo(metadata?.name ?? "");
  });
  onNews(views.hub.instances, ({ type, object }) => {
    ask.instance(placeOf(object));
    if (type === "deleted") asked.placements.ask([know.hubKey(deploymentOf(object))], ...URGENT);
  });
  onNews(views.cell.deployments, (change, of) => {
    const place = placeOf(change.object);
    if (hasNewStatus(change)) counts.changed(place);
    asked.carry.ask([{ cluster: of, ...place }], ...URGENT);
    asked.placements.ask([know.hubKey(place)], ...URGENT);
    for (const it of know.withdrawals(place)) ask.withdrawal(it);
    if (change.type === "deleted") ask.end(of);
    if (change.type === "updated" || know.onHub(place) === undefined) return;
    const inside = views.cell.instances.byIndex(by.deployment, change.object.metadata?.uid ?? "", of);
    asked.collect.ask(inside.map((it) => keyOf(of, it)));
  });
  onNews(views.cell.instances, ({ type, object }, of) => {
    asked.collect.ask([keyOf(of, object)], ...URGENT);
    if (type === "deleted") ask.projection(placeOf(object));
  });
  onNews(views.cell.namespaces, ({ object: { metadata } }, of) => {
    // Its labels may be what they wait for.
    const waiting = views.hub.deployments.byIndex(by.namespace, metadata?.name ?? "", hub.name);
    asked.carry.ask(waiting.map((it) => keyOf(of, it)));
  });
  views.cells.subscribe({
    onChange(change, of) {
      onCells();
      asked.cells.ask([keyOf(of, change.object)], ...urgency(change));
      if (!isSpec(change)) return;
      ask.cell((change.object.metadata?.name ?? "") as ClusterName);
      if (change.type === "added") return;
      // What it was before: the look above is about what it is now.
      const { spec } = change.type === "updated" ? change.old : change.object;
      ask.placedIn(spec?.uid ?? "");
      ask.unplaced(spec?.city ?? "");
    },
    // Which cities there are concerns Workloads, whether the hub is read or not.
    onState() {
      onCells();
      ask.all();
    },
  });
  views.withdrawals.subscribe({
    onChange({ object }) {
      ask.withdrawal(object);
      if (object.spec === undefined) return;
      strays.noteIn(object.spec.cell as ClusterName);
      ask.around(object.spec);
      asked.cells.ask([{ cluster: own.name, namespace: "", name: object.spec.cell }]);
    },
  });
  views.secrets.subscribe({
    onChange({ object }) {
      onCells();
      // Nothing can be told apart in cells without it.
      if (object.metadata?.name === SIGNING_KEY) ask.all();
    },
    onState: onCells,
  });
  // From one kind more nothing follows until the others are read too. What is read anew is looked at, though it was read before.
  let unread = know.hubUnread();
  for (const view of [views.withdrawals, ...Object.values(views.hub)])
    (view as FleetView<KubeObject>).subscribe({
      onState() {
        onCells();
        const before = unread;
        unread = know.hubUnread();
        if (unread === undefined || unread !== before) ask.all();
      },
    });
  const read = new Set<ClusterName>();
  const ofProject = (of: ClusterName): void => {
    strays.noteAll();
    const wasRead = read.delete(of);
    const isRead = know.project(of)?.isSynced === true;
    if (isRead) read.add(of);
    if (isRead || wasRead) ask.project(of);
    else if (isProject(of)) ask.workloads(of);
  };
  const { deployments, instances, namespaces } = views.project;
  for (const view of [deployments, instances, namespaces, views.workloads])
    view.subscribe({ onState: ofProject });
  projects.subscribe((of) => {
    // A cell may be known now for what it is not.
    onCells();
    ofProject(of);
  });
  hub.set.subscribe(() => {
    onCells();
    ask.all();
  });
  cells.subscribe((of) => ask.cell(of));
}

/** What a snapshot brings is asked for as a whole, with the state of its view: not one by one as well. */
function onNews<T extends KubeObject>(
  view: FleetView<T>,
  onChange: (change: Change<T>, of: ClusterName) => void,
): void {
  view.subscribe({
    onChange(change, of) {
      if (!isInitial(change)) onChange(change, of);
    },
  });
}

function urgency(change: Change<KubeObject>): Urgency {
  return isInitial(change) ? BULK : URGENT;
}

function statesOf<T extends KubeObject>(change: Change<T>): readonly T[] {
  return change.type === "updated" ? [change.old, change.object] : [change.object];
}

const hasNewStatus = and<WorkloadDeployment>(
  ({ type }) => type === "updated",
  changed(({ status }) => status),
);
const isPlacing = or<WorkloadDeployment>(
  ({ type }) => type !== "updated",
  changed(({ metadata }) => [
    metadata?.deletionTimestamp,
    metadata?.annotations?.[keys.placement],
    metadata?.annotations?.[keys.sourceUid],
    metadata?.uid,
  ]),
);
/** What the project wants, or where the hub had it. */
const isWish = or(
  isPlacing,
  changed<WorkloadDeployment>(({ metadata }) => metadata?.annotations?.[keys.federationNamespace]),
);
const isSpec = or<KubeObject & { readonly spec?: unknown }>(
  ({ type }) => type !== "updated",
  changed(({ spec, metadata }) => [spec, metadata?.deletionTimestamp]),
);

function deploymentOf(instance: KubeObject): Place {
  const { namespace, name } = placeOf(instance);
  return { namespace, name: deploymentOfInstance(name) ?? "" };
}
