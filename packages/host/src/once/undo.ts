/** What a command takes back on single objects: data that it shows first, and carries out when it is told to. */
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

/** Something of ours on one object. */
export interface Undo {
  readonly resource: Resource;
  /** As it was read; of its metadata alone is made use. */
  readonly object: KubeObject;
  /** `its tolerations`. */
  readonly what: string;
  readonly how: UndoHow;
}

export type UndoHow =
  /** The whole object is ours. */
  | { readonly do: "delete" }
  /** The patch itself names the version that it is for. */
  | { readonly do: "patch"; readonly patch: Patch }
  /** An apply of nothing removes what this field manager has applied. */
  | { readonly do: "unapply"; readonly manager: string }
  | { readonly do: "edit"; readonly edit: Edit };

/** What removes it from the object as it is read anew. `undefined`: nothing of it is left. */
export type Edit = (object: never) => readonly JsonPatchOperation[] | undefined;

/** An object that keeps changing under us, as its status does in a roll-out: read again this often. */
const MAX_TRIES = 10;
/** The API server compiles its admission policies anew once a second. Milliseconds. */
const POLICY_MS = 1000;

/** `workerpools.ate.dev default/pool`. */
function textOf({ resource, object: { metadata } }: Undo): string {
  const { namespace, name = "" } = metadata ?? {};
  return `${nameOfResource(resource)} ${namespace === undefined ? name : `${namespace}/${name}`}`;
}

/** For data. */
export function describeUndos(work: readonly Undo[]): readonly object[] {
  return work.map((one) => ({ object: textOf(one), what: one.what }));
}

/** For people: a line each. */
export function formatUndos(work: readonly Undo[], verb: "will" | "would"): string {
  return work
    .map((one) => `${textOf(one)}: ${one.what}: ${verb} be ${isWhole(one) ? "deleted" : "taken off"}\n`)
    .join("");
}

function isWhole({ how }: Undo): boolean {
  return how.do === "delete";
}

/**
 * One after the other. One that is gone is as good.
 *
 * @param describe the error in one line.
 * @returns one line for each that was left as it is: it changed since it was read, or may not be written.
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
  else if (how.do === "unapply") {
    const nothing = { metadata: { ...of, ...(uid !== undefined && { uid }) } };
    await client.apply(resource, nothing, { fieldManager: how.manager, signal });
  } else await takeOff({ resource, of, uid }, how.edit, run);
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
  // Whoever made the undo has read the object from this resource.
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
      // The API server goes by a deleted policy for a second more, and has put it back in the same request.
      if (tries === MAX_TRIES)
        throw new Error(`${of.namespace ?? ""}/${of.name}: admission puts back what was removed`);
      await sleep(clock, POLICY_MS, signal);
    } catch (error) {
      // A `test` that does not hold is answered as invalid.
      if (!isApiError(error, "invalid", "conflict") || tries === MAX_TRIES) throw error;
    }
  }
}
