/** Changes that a command reverts on single objects. The command shows them first and carries them out on request. */
import {
  type ApiError,
  isApiError,
  type JsonPatchOperation,
  type KubeObject,
  nameOfResource,
  type Patch,
  type Resource,
} from "@berth/kube";
import { sleep } from "@berth/runtime";
import type { OneShotRun } from "./run.ts";

/** One change by Berth on one object. */
export interface Undo {
  readonly resource: Resource;
  /** As the command read it. Only its metadata is used. */
  readonly object: KubeObject;
  /** What is removed, such as `its tolerations`. */
  readonly what: string;
  readonly how: UndoHow;
}

export type UndoHow =
  /** Berth owns the whole object. */
  | { readonly do: "delete" }
  /** The patch itself names the object version. */
  | { readonly do: "patch"; readonly patch: Patch }
  | { readonly do: "edit"; readonly edit: Edit };

/** Returns the operations that remove the change from the object as it is now. `undefined`: nothing is left of it. */
export type Edit = (object: never) => readonly JsonPatchOperation[] | undefined;

/** Number of tries on an object that other clients keep changing, such as its status during a roll-out. */
const MAX_TRIES = 10;
/** Interval in which the API server compiles its admission policies again, ms. */
const POLICY_MS = 1000;

/** `workerpools.ate.dev default/pool`. */
function textOf({ resource, object: { metadata } }: Undo): string {
  const { namespace, name = "" } = metadata ?? {};
  return `${nameOfResource(resource)} ${namespace === undefined ? name : `${namespace}/${name}`}`;
}

/** As data for scripts. */
export function describeUndos(work: readonly Undo[]): readonly object[] {
  return work.map((one) => ({ object: textOf(one), what: one.what }));
}

/** As text for people, one line each. */
export function formatUndos(work: readonly Undo[], verb: "will" | "would"): string {
  return work
    .map((one) => `${textOf(one)}: ${one.what}: ${verb} be ${isWhole(one) ? "deleted" : "removed"}\n`)
    .join("");
}

function isWhole({ how }: Undo): boolean {
  return how.do === "delete";
}

/**
 * Carries out the changes in order. An object that is gone counts as done.
 *
 * @param describe the error in one line.
 * @returns one line for each object that stays as it is: it changed since it was read, or the user may not write it.
 */
export async function carryOutUndos(
  work: readonly Undo[],
  run: OneShotRun,
  describe: (error: ApiError) => string,
): Promise<readonly string[]> {
  const failures: string[] = [];
  for (const one of work) {
    try {
      await carryOut(one, run);
    } catch (error) {
      if (isApiError(error, "notFound", "uidMismatch")) continue;
      if (!isApiError(error)) throw error;
      failures.push(`${textOf(one)} was left as it is: ${describe(error)}`);
    }
  }
  return failures;
}

async function carryOut({ resource, object, how }: Undo, run: OneShotRun): Promise<void> {
  const { client, signal } = run;
  const { namespace, name = "", uid } = object.metadata ?? {};
  const of = { name, ...(namespace !== undefined && { namespace }) };
  if (how.do === "delete") {
    const preconditions = uid === undefined ? {} : { preconditions: { uid } };
    await client.delete(resource, of, { ...preconditions, signal });
  } else if (how.do === "patch") await client.patch(resource, of, how.patch, { signal });
  else await takeOff({ resource, of, uid }, how.edit, run);
}

interface Edited {
  readonly resource: Resource;
  readonly of: { readonly name: string; readonly namespace?: string };
  readonly uid: string | undefined;
}

async function takeOff(
  { resource, of, uid }: Edited,
  edit: Edit,
  { client, clock, signal }: OneShotRun,
): Promise<void> {
  // The creator of the undo read the object from this resource, so its type fits.
  const changesOf = (object: KubeObject): ReturnType<Edit> => edit(object as never);
  for (let tries = 1; ; tries++) {
    const object = await client.get(resource, of, { signal });
    const changes = changesOf(object);
    if (changes === undefined || object.metadata?.uid !== uid) return;
    const value = object.metadata?.resourceVersion;
    const body = [{ op: "test", path: "/metadata/resourceVersion", value } as const, ...changes];
    try {
      const patched = await client.patch(resource, of, { type: "json", body }, { signal });
      if (changesOf(patched) === undefined) return;
      // The API server applies a deleted policy for another second. It can restore the change within the same request.
      if (tries === MAX_TRIES)
        throw new Error(`${of.namespace ?? ""}/${of.name}: admission puts back what was removed`);
      await sleep(clock, POLICY_MS, signal);
    } catch (error) {
      // When a `test` fails, the server answers `invalid`.
      if (!isApiError(error, "invalid", "conflict") || tries === MAX_TRIES) throw error;
    }
  }
}
