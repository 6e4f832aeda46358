/** Deployments in cells that nothing stands for on the hub. Only a person can say what they are for: see `strayVerdict`. */
import { isDeepStrictEqual } from "node:util";
import type { Host } from "@berth/host";
import { pathOf } from "@berth/kube";
import { type ClusterName, type ObjectKey, referenceTo } from "@berth/runtime";
import { type CellStatus, cells, MOST_NAMED, type Orphan } from "../../api/cell.ts";
import { labels, projectOfNamespace } from "../../api/keys.ts";
import { originOf } from "../../api/origin.ts";
import { strayVerdict } from "../../drivers/direct/withdraw.ts";
import { type CellSeen, nameOf, uidOf } from "../../hub/cells/seen.ts";
import type { Source } from "../../hub/source.ts";
import { type Knowledge, type Place, placeOf } from "./knowledge.ts";
import type { Planes } from "./planes.ts";

type Stray = { readonly reason: "Orphaned"; readonly orphan: Orphan } | { readonly reason: "Forged" };
type Strays = ReadonlyMap<string, Stray>;

/** Between two looks at all of a cell, ms: each deployment takes a signature. */
const LOOK_MS = 1_000;

export interface StrayOptions {
  readonly host: Pick<Host, "metrics" | "clock">;
  readonly planes: Planes;
  readonly know: Knowledge;
}

/** Reports each as an Event on its Cell when it comes and when it goes, and counts them. Kept by the process that leads. */
export class StrayDeployments {
  readonly #parts: StrayOptions;
  readonly #known = new Map<ClusterName, Strays>();
  readonly #due = new Set<ClusterName>();
  /** Monotonic, ms. */
  readonly #lookedMs = new Map<ClusterName, number>();

  constructor(parts: StrayOptions) {
    const { host, planes } = parts;
    this.#parts = parts;
    // As long as the process: so is this.
    planes.cells.subscribe((of) => {
      if (planes.cells.has(of)) return;
      this.#known.delete(of);
      this.#lookedMs.delete(of);
    });
    host.metrics.gauge<"reason">({
      name: "compute_federation_stray_deployments",
      help: "Deployments in cells that Berth leaves alone, by reason: Orphaned or Forged.",
      labels: ["reason"],
      collect: (gauge) => {
        const all = this.#known
          .values()
          .flatMap((it) => it.values())
          .toArray();
        for (const reason of ["Orphaned", "Forged"] as const)
          gauge.set(all.filter((it) => it.reason === reason).length, { reason });
      },
    });
  }

  /** A deployment of a cell has changed, or what stands for it. */
  note({ cluster, ...place }: ObjectKey, cell: CellSeen): void {
    const [found, known] = [this.#at(cell, place), this.#known.get(cluster)?.get(pathOf(place))];
    if (found !== "unknown" && !isDeepStrictEqual(found, known)) this.#due.add(cluster);
  }

  /** Withdrawals from a cell have changed. */
  noteIn(cell: ClusterName): void {
    if (this.#parts.planes.cells.has(cell)) this.#due.add(cell);
  }

  /** What is known of projects has changed. */
  noteAll(): void {
    for (const { name } of this.#parts.planes.cells.list()) this.#due.add(name);
  }

  /** Cells to look at again. */
  get due(): readonly ClusterName[] {
    return [...this.#due];
  }

  /** Looks at all of a cell, once a second at most. @returns the orphans for its status. */
  look(cell: CellSeen): CellStatus["orphans"] {
    const { planes, know } = this.#parts;
    const { orphans: told } = cell.cell.status ?? {};
    if (know.hubUnread() !== undefined || cell.state.is !== "synced") return told;
    const cluster = nameOf(cell) as ClusterName;
    const known = this.#known.get(cluster);
    if (known !== undefined && !this.#isDue(cluster)) return orphansOf(known);
    const before = known ?? straysIn(told);
    this.#due.delete(cluster);
    this.#lookedMs.set(cluster, this.#parts.host.clock.monotonic());
    const now = new Map<string, Stray>();
    for (const deployment of planes.views.cell.deployments.list(cluster)) {
      const place = placeOf(deployment);
      const stray = this.#at(cell, place);
      // Nothing new is known of one while its project is not read.
      const kept = stray === "unknown" ? before.get(pathOf(place)) : stray;
      if (kept !== undefined) now.set(pathOf(place), kept);
    }
    this.#known.set(cluster, now);
    for (const id of new Set([...now.keys(), ...before.keys()])) this.#tell(cell, id, before, now);
    return orphansOf(now);
  }

  #isDue(cluster: ClusterName): boolean {
    const nowMs = this.#parts.host.clock.monotonic();
    return this.#due.has(cluster) && nowMs - (this.#lookedMs.get(cluster) ?? 0) >= LOOK_MS;
  }

  #at(cell: CellSeen, place: Place): Stray | "unknown" | undefined {
    const { know } = this.#parts;
    const seen = know.inCell(cell, place, (views) => views.deployments);
    if (seen.is !== "there") return undefined;
    const origin = originOf(seen.value, uidOf(cell), know.signer);
    if (origin.is === "forged" && origin.hub === know.hubUid) return { reason: "Forged" };
    if (origin.is !== "signed" || origin.origin.hub !== know.hubUid) return undefined;
    const { sourceUid, epoch, start } = origin.origin;
    const { source, of } = this.#sourceOf(place, cell, sourceUid);
    const verdict = strayVerdict({
      found: { cell, deployment: seen.value, origin: origin.origin },
      hubDeployment: know.onHub(place),
      withdrawals: know.withdrawals(place),
      source,
    });
    if (verdict === "known") return undefined;
    if (verdict === "unknown") return verdict;
    const orphan = { ...placeOf(seen.value), sourceUid, epoch, start };
    const held = verdict === "superseded";
    return { reason: "Orphaned", orphan: { ...orphan, ...(of && { of }), ...(held && { held }) } };
  }

  /**
   * Of a deployment that may be in a cell alone. Where the hub has no namespace for it, that of the cell says its project: it
   * may lie, so nothing is created or deleted for this.
   */
  #sourceOf(
    { namespace, name }: Place,
    cell: CellSeen,
    sourceUid: string,
  ): { readonly source: Source; readonly of?: string } {
    const { planes, know } = this.#parts;
    const inCell = know.inCell(cell, { namespace: "", name: namespace }, (it) => it.namespaces);
    const marks = know.hubNamespace(namespace) ?? (inCell.is === "there" ? inCell.value : {});
    const { [labels.upstreamNamespace]: upstream } = marks.metadata?.labels ?? {};
    const named = projectOfNamespace(marks);
    if (named === undefined || upstream === undefined) return { source: "unknown" };
    const plane = planes.projectNamed.get(named);
    const of = `${plane?.path ?? named}/${upstream}/${name}`;
    if (plane === undefined || know.project(plane.cluster)?.isSynced !== true)
      return { source: "unknown", of };
    const { deployments } = planes.views.project;
    const { metadata } = deployments.get({ cluster: plane.cluster, namespace: upstream, name }) ?? {};
    if (metadata?.uid !== sourceUid) return { source: "gone", of };
    return { source: metadata.deletionTimestamp === undefined ? "live" : "deleting", of };
  }

  #tell(cell: CellSeen, id: string, before: Strays, now: Strays): void {
    const { planes, know } = this.#parts;
    const [had, has] = [before.get(id)?.reason, now.get(id)];
    if (had === has?.reason) return;
    const [namespace = "", name = ""] = id.split("/");
    const isThere = know.inCell(cell, { namespace, name }, (views) => views.deployments).is === "there";
    const record = (type: "Normal" | "Warning", reason: string, note: string): void =>
      planes.own.set.get(planes.own.name)?.events.record({
        regarding: referenceTo(cells, cell.cell),
        type,
        reason,
        action: "WatchCell",
        note,
      });
    if (has?.reason === "Forged")
      record("Warning", has.reason, `deployment ${id} says that this hub made it`);
    else if (has?.orphan.held)
      record("Warning", has.reason, `deployment ${id} is of an older placement: it is held`);
    else if (has !== undefined)
      record("Warning", has.reason, `this hub made deployment ${id}, and knows nothing of it any more`);
    else if (had === "Orphaned" && know.withdrawals({ namespace, name }).length > 0)
      record("Normal", "Withdrawing", `deployment ${id} is deleted, as an operator wants`);
    else if (had === "Orphaned" && isThere)
      record("Normal", "Adopted", `deployment ${id} is that of its project again`);
  }
}

function orphansOf(strays: Strays): CellStatus["orphans"] {
  const names = [...strays.values()].flatMap((it) => (it.reason === "Orphaned" ? it.orphan : []));
  if (names.length === 0) return undefined;
  const sorted = names.toSorted((one, other) => (pathOf(one) < pathOf(other) ? -1 : 1));
  return { count: names.length, names: sorted.slice(0, MOST_NAMED) };
}

/** Those that an earlier process has told of. */
function straysIn(told: CellStatus["orphans"]): Strays {
  return new Map(told?.names.map((orphan) => [pathOf(orphan), { reason: "Orphaned", orphan }]));
}
