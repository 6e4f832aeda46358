/** The document `Fleet` while Berth runs: what of it changes, and what has to wait for the next start. */
import { FaultReport, type Host, type LocatedDocument } from "@berth/host";
import { isSameData } from "@berth/runtime";
import { type FleetSpec, fleetKind } from "./document.ts";
import type { FleetSettings } from "./settings.ts";

export interface CurrentFleet {
  /** The newest that is in force. Never kept: it may change. */
  readonly spec: FleetSpec;
}

/** Reason of the Event about a Fleet that is not in force. */
export const NEEDS_RESTART = "FleetNeedsRestart";

/**
 * Follows the document. Another one comes into force at once, and one that cannot is told as a fault of its file: then
 * the Fleet before stays in force.
 * @param onChange called after another Fleet came into force.
 */
export function followFleet(
  host: Pick<Host, "onFiles" | "onFault">,
  { spec, contradicts }: Pick<FleetSettings, "spec" | "contradicts">,
  onChange: (before: FleetSpec) => void,
): CurrentFleet {
  const current = { spec };
  watchDocument(host, (after) => {
    const problem = (after && contradicts?.(after)) ?? keptBecause(current.spec, after);
    if (problem !== undefined || after === undefined || isSameData(after, current.spec)) return problem;
    const before = current.spec;
    current.spec = after;
    onChange(before);
    return undefined;
  });
  return current;
}

/** Without a Fleet at the start, its controllers do not run, and their Lease is not asked for. */
export function tellOfNewFleet(host: Pick<Host, "onFiles" | "onFault">): void {
  watchDocument(host, (after) => after && "Berth started without a Fleet: start it again to run Workloads");
}

/** @param take called with the document that the files have now. @returns why it is not in force. */
function watchDocument(
  host: Pick<Host, "onFiles" | "onFault">,
  take: (after: FleetSpec | undefined) => string | undefined,
): void {
  const faults = new FaultReport(host.onFault);
  let known: LocatedDocument<FleetSpec> | undefined;
  host.onFiles((documents) => {
    const [document] = documents.documentsOf(fleetKind);
    known = document ?? known;
    // A Fleet of flags has no place, and no document that could go.
    if (known === undefined) return;
    const message = take(document?.spec);
    const { file, line, column } = known;
    const fault = { file, line, column, severity: "error", reason: NEEDS_RESTART } as const;
    faults.report(fleetKind.kind, message === undefined ? [] : [{ ...fault, message }]);
  });
}

/** The fields on which a Lease, permissions or connections depend: these are of the process. */
function keptBecause(before: FleetSpec, after: FleetSpec | undefined): string | undefined {
  if (after === undefined)
    return "the Fleet is gone from the files: it stays in force until Berth starts again";
  const fixed = (["mode", "cell", "quota"] as const).find((it) => !isSameData(before[it], after[it]));
  return (
    fixed && `a change of ${fixed} takes effect when Berth starts again: the Fleet before stays in force`
  );
}
