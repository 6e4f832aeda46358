/** The document `Fleet` while Berth runs: what comes into force at once, and what waits for the next start. */
import { FaultReport, type Host, type LocatedDocument } from "@berth/host";
import type { KubeClient } from "@berth/kube";
import { isSameData } from "@berth/runtime";
import type { ListedProject } from "../wiring/hub/planes.ts";
import { type FleetSpec, fleetKind, listedProjects } from "./document.ts";
import type { FleetSettings } from "./settings.ts";

export interface CurrentFleet {
  /** The newest that is in force. Never kept: it may change. */
  readonly spec: FleetSpec;
}

/** Reason of the Event about a Fleet that is not in force. */
export const NOT_IN_FORCE = "FleetNotInForce";

/** What a Fleet replaces. */
export interface Replaced {
  readonly before: FleetSpec;
  /** The connection of its quota service, if the one before is of no use. */
  readonly quota: KubeClient | undefined;
  /** The connections of another list of projects. Absent: the list is the same, or there is none. */
  readonly projects?: readonly ListedProject[] | undefined;
}

type Files = Pick<Host, "onFiles" | "onFault">;

/**
 * Follows the document. Another one comes into force at once, and one that cannot is told as a fault of its file: then
 * the Fleet before stays in force.
 * @param onChange called after another Fleet came into force.
 */
export function followFleet(
  files: Files,
  {
    spec,
    contradicts,
    connect,
    readProjects,
  }: Pick<FleetSettings, "spec" | "contradicts" | "connect" | "readProjects">,
  onChange: (replaced: Replaced) => void,
): CurrentFleet {
  const current = { spec };
  /** A document says what is in force, and not only flags. */
  let isDocument = false;
  watchDocument(files, async (after, isNewest) => {
    if (after === undefined)
      return isDocument ? `the Fleet is gone from the files: ${STAYS} until Berth starts again` : undefined;
    const { spec: before } = current;
    const isConnected = isSameData(before.quota, after.quota) || after.quota?.kubeconfig === undefined;
    const listed = listedProjects(before.projects) && listedProjects(after.projects);
    const isListed = listed !== undefined && readProjects !== undefined;
    const fixed = (["mode", "cell", "hub", "projects", "driver"] as const).find(
      (it) => !(it === "projects" && isListed) && !isSameData(before[it], after[it]),
    );
    const waits = fixed ?? (isConnected || connect ? undefined : "quota");
    const problem = contradicts?.(after) ?? (waits && `a change of ${waits} has to wait for the next start`);
    if (problem !== undefined) return `${problem}: ${STAYS}`;
    isDocument = true;
    if (isSameData(before, after)) return undefined;
    let quota: KubeClient | undefined;
    let projects: readonly ListedProject[] | undefined;
    try {
      if (!isConnected) quota = await connect?.(after.quota?.kubeconfig ?? "");
      if (!isSameData(before.projects, after.projects)) projects = await readProjects?.(listed ?? []);
    } catch (error) {
      await quota?.close();
      const field = isConnected || quota !== undefined ? "projects" : "quota.kubeconfig";
      return `${field}: ${error instanceof Error ? error.message : String(error)}: ${STAYS}`;
    }
    if (!isNewest()) await quota?.close();
    else {
      current.spec = after;
      onChange({ before, quota, projects });
    }
    return undefined;
  });
  return current;
}

const STAYS = "the Fleet before stays in force";

/** Without a Fleet at the start, its controllers do not run, and their Lease is not asked for. */
export function tellOfNewFleet(files: Files): void {
  watchDocument(files, (after) =>
    Promise.resolve(after && "Berth started without a Fleet: start it again to run Workloads"),
  );
}

/** @param take called with the document that the files have now. Resolves with why it is not in force. */
function watchDocument(
  { onFiles, onFault }: Files,
  take: (after: FleetSpec | undefined, isNewest: () => boolean) => Promise<string | undefined>,
): void {
  const faults = new FaultReport(onFault);
  let known: LocatedDocument<FleetSpec> | undefined;
  let newest: symbol;
  onFiles((documents) => {
    const turn = (newest = Symbol());
    const [document] = documents.documentsOf(fleetKind);
    known = document ?? known;
    if (known === undefined) return;
    const { file, line, column } = known;
    const fault = { file, line, column, severity: "error", reason: NOT_IN_FORCE } as const;
    const report = async (): Promise<void> => {
      const message = await take(document?.spec, () => turn === newest);
      if (turn === newest)
        faults.report(fleetKind.kind, message === undefined ? [] : [{ ...fault, message }]);
    };
    void report();
  });
}
