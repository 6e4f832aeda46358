/** What a hub counts. Labels have few values: never the name of an object, but for Cells. */
import { pathOf } from "@berth/kube";
import type { Clock, Histogram, MetricsRegistry } from "@berth/runtime";
import { INTERPRETER, interpreterPatch } from "../../drivers/karmada/interpreter.ts";
import { nameOf } from "../../hub/cells/seen.ts";
import type { CellMembers } from "./cell-members.ts";
import type { Knowledge, Place } from "./knowledge.ts";
import type { Planes } from "./planes.ts";

export interface HubMetrics {
  /** A cell shows a new status of a deployment. */
  changed(place: Place): void;
  /** The hub has compared it. @param isNews it differed, and was written. */
  onHub(place: Place, isNews: boolean): void;
  /** It was written in its project. */
  inProject(place: Place): void;
}

/** More statuses on their way than these are not timed. */
const MOST = 10_000;

export function createHubMetrics(
  registry: MetricsRegistry,
  clock: Pick<Clock, "monotonic">,
  know: Pick<Knowledge, "cells">,
  members: Pick<CellMembers, "expiresMsOf">,
  { hub, views }: Pick<Planes, "hub" | "views">,
): HubMetrics {
  let told: ReadonlySet<string> = new Set();
  registry.gauge<"cell">({
    name: `${registry.prefix}fleet_cell_heard`,
    help: "1 while the API server of a cell answers and Berth in it renews its Lease, otherwise 0.",
    labels: ["cell"],
    collect(gauge) {
      const { cells } = know;
      for (const cell of told.difference(new Set(cells.map(nameOf)))) gauge.remove({ cell });
      told = new Set(cells.map(nameOf));
      for (const seen of cells) gauge.set(seen.state.is === "synced" ? 1 : 0, { cell: nameOf(seen) });
    },
  });
  let ending: ReadonlySet<string> = new Set();
  registry.gauge<"cell">({
    name: `${registry.prefix}fleet_cell_credential_expiration_timestamp_seconds`,
    help: "When the credential of a cell ends, in seconds since the epoch. None for one that does not say.",
    labels: ["cell"],
    collect(gauge) {
      const ends = know.cells.flatMap((it) => {
        const expiresMs = members.expiresMsOf(nameOf(it));
        return expiresMs === undefined ? [] : [[nameOf(it), expiresMs] as const];
      });
      const named = new Set(ends.map(([cell]) => cell));
      for (const cell of ending.difference(named)) gauge.remove({ cell });
      ending = named;
      for (const [cell, expiresMs] of ends) gauge.set(expiresMs / 1000, { cell });
    },
  });
  registry.gauge({
    name: "compute_federation_interpreter_missing",
    help: "1 while Karmada is not told how to read the status of deployments; 0 when it is, does not carry them, or is not read yet.",
    collect(gauge) {
      const read = views.karmada?.interpreters;
      const known = read?.get({ cluster: hub.name, namespace: "", name: INTERPRETER });
      gauge.set(read?.state(hub.name) === "synced" && interpreterPatch(known ?? {}) !== undefined ? 1 : 0);
    },
  });
  const lag: Histogram = registry.histogram({
    name: "compute_federation_sync_lag_seconds",
    help: "From the news of a status in a cell until its project shows it.",
    buckets: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300],
  });
  const onTheirWay = new Map<string, { readonly sinceMs: number; readonly isOnHub: boolean }>();
  return {
    changed(place) {
      const id = pathOf(place);
      if (onTheirWay.has(id) || onTheirWay.size >= MOST) return;
      onTheirWay.set(id, { sinceMs: clock.monotonic(), isOnHub: false });
    },
    onHub(place, isNews) {
      const id = pathOf(place);
      const known = onTheirWay.get(id);
      if (known === undefined || known.isOnHub) return;
      if (isNews) onTheirWay.set(id, { ...known, isOnHub: true });
      else onTheirWay.delete(id);
    },
    inProject(place) {
      const id = pathOf(place);
      const known = onTheirWay.get(id);
      if (known?.isOnHub !== true) return;
      lag.observe((clock.monotonic() - known.sinceMs) / 1000);
      onTheirWay.delete(id);
    },
  };
}
