/** Changes that people ask for on the command line, as patches of one Workload. Pure. */
import type { Patch } from "@berth/kube";
import { annotations } from "../api/keys.ts";
import type { Workload } from "../api/workload.ts";
import { applyMergePatch } from "../workload/merge-patch.ts";

/** What a command changes, or a sentence why it does not. */
export type Change =
  | {
      readonly patch: Patch;
      /** The Workload with the patch. */
      readonly next: Workload;
      /** The field that changes, for people. */
      readonly what: string;
      readonly before: string;
      readonly after: string;
    }
  | { readonly problem: string };

/** Makes the template a new one, so that its Instances are rolled. @param now RFC 3339. */
export function restartOf(workload: Workload, now: string): Change {
  const problem = ending(workload);
  if (problem !== undefined) return { problem };
  const { metadata } = workload.spec?.template ?? {};
  const body = { spec: { template: { metadata: { annotations: { [annotations.restartedAt]: now } } } } };
  return {
    patch: { type: "merge", body },
    // A merge patch of one annotation keeps the shape.
    next: applyMergePatch(workload, body) as Workload,
    what: annotations.restartedAt,
    before: metadata?.annotations?.[annotations.restartedAt] ?? "never",
    after: now,
  };
}

/** @param placement its name. Default: the only one. */
export function scaleOf(workload: Workload, replicas: number, placement: string | undefined): Change {
  const problem = ending(workload);
  if (problem !== undefined) return { problem };
  const placements = workload.spec?.placements ?? [];
  const names = placements.map(({ name }) => name).join(", ");
  if (placement === undefined && placements.length !== 1)
    return { problem: `it has several placements: give --placement with one of ${names}` };
  const at = placement === undefined ? 0 : placements.findIndex(({ name }) => name === placement);
  const found = placements[at];
  if (found === undefined) return { problem: `it has no placement ${placement}; there is: ${names}` };
  const path = `/spec/placements/${at}`;
  const scaleSettings = { ...found.scaleSettings, minReplicas: replicas };
  const { spec } = workload;
  return {
    next: {
      ...workload,
      ...(spec && { spec: { ...spec, placements: placements.with(at, { ...found, scaleSettings }) } }),
    },
    patch: {
      type: "json",
      body: [
        { op: "test", path: `${path}/name`, value: found.name },
        { op: "replace", path: `${path}/scaleSettings/minReplicas`, value: replicas },
      ],
    },
    what: `minReplicas of placement ${found.name} (${found.cityCodes.join(", ")})`,
    before: String(found.scaleSettings.minReplicas),
    after: String(replicas),
  };
}

function ending({ metadata }: Workload): string | undefined {
  return metadata?.deletionTimestamp === undefined ? undefined : "it is being deleted";
}
