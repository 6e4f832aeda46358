/** One patch of a pod template, and what is made of the server's answer. */
import { isApiError, isRefusalOfObject, type KubeObject } from "@berth/kube";
import type { Clock, ReconcileResult } from "@berth/runtime";
import { type Given, noteWritten, REFUSED_MS, STALE_MS, type TemplateMemory } from "./template-memory.ts";

export interface TemplatePatch {
  readonly memory: TemplateMemory;
  /** The version that the patch was made for. */
  readonly resourceVersion: string;
  /** What it puts into the template. */
  readonly given: readonly Given[];
  /** Sends it, bound to that version by `test` operations; answers the object as it is then. Rejects with `ApiError`. */
  readonly send: () => Promise<KubeObject>;
  readonly clock: Pick<Clock, "monotonic">;
  /** The server has taken it. Must not throw. */
  readonly onWritten: () => void;
  /** The server refuses it. Must not throw. @param note for people. */
  readonly onRefused: (note: string) => void;
}

/**
 * A `test` that does not hold is answered as invalid: the first refusal may be for a newer version that is on its way, and
 * the second on one version is for good. An object that is gone is no failure.
 * @returns when to look again, if no event will say so. Rejects with every other `ApiError`: a missing permission too.
 */
export async function patchTemplate(patch: TemplatePatch): Promise<ReconcileResult | undefined> {
  const { memory, resourceVersion: from, given, clock } = patch;
  try {
    const { metadata } = await patch.send();
    const to = metadata?.resourceVersion ?? "";
    const result = noteWritten(memory, { from, to, given, nowMs: clock.monotonic() });
    patch.onWritten();
    return result;
  } catch (error) {
    if (isApiError(error, "notFound")) return undefined;
    if (!isApiError(error, "invalid", "conflict", "forbidden")) throw error;
    const isRefused = isApiError(error, "forbidden") || memory.refused === from;
    memory.refused = from;
    if (!isRefused) return { recheckAfterMs: STALE_MS };
    patch.onRefused(`its pod template stays as it is: ${error.message}`);
    if (isApiError(error, "forbidden") && !isRefusalOfObject(error)) throw error;
    return { recheckAfterMs: REFUSED_MS };
  }
}
