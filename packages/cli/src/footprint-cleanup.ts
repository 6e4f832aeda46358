/** What `berth clean` undoes of footprints beside the nodes: finalizers on owners, and waits in Deployments. */
import {
  type Deployment,
  defineResource,
  deployments,
  isApiError,
  type KubeObject,
  nameOfResource,
  type Resource,
} from "@berth/kube";
import { FIELD_MANAGER, type Footprints, type OwnerHold } from "@berth/placement";
import { removeFinalizer } from "@berth/runtime";
import { describeApiError } from "./failure-text.ts";
import type { Session } from "./session.ts";
import type { Surroundings } from "./surroundings.ts";

/** One object that has something of a footprint on it. */
export interface FootprintLeftover {
  /** `workerpools.ate.dev default/pool`. */
  readonly object: string;
  readonly what: string;
  readonly undo: (signal: AbortSignal) => Promise<unknown>;
}

type Around = Pick<Surroundings, "stderr" | "signal">;

/**
 * Of the footprints that are known, and only what they would have put there themselves. Without Berth a finalizer would
 * keep an owner for ever.
 */
export async function findFootprintWork(
  footprints: Footprints | undefined,
  session: Session,
  surroundings: Around,
): Promise<readonly FootprintLeftover[]> {
  const found: FootprintLeftover[] = [];
  const inForce = footprints?.footprints ?? [];
  const holds = new Map(
    inForce.flatMap(({ hold }) =>
      hold === undefined ? [] : [[JSON.stringify(hold.resource) + hold.finalizer, hold]],
    ),
  );
  for (const hold of holds.values()) found.push(...(await heldOwners(hold, session, surroundings)));
  if (inForce.some(({ wait }) => wait?.inject === "ServerSideApply"))
    found.push(...(await waitingDeployments(session, surroundings)));
  return found;
}

async function heldOwners(
  { resource: { group, version, resource: plural }, finalizer }: OwnerHold,
  { client }: Session,
  surroundings: Around,
): Promise<readonly FootprintLeftover[]> {
  const resource = defineResource({ group, version, plural, kind: "", namespaced: true });
  const objects = await listAll(resource, { metadataOnly: true }, { client }, surroundings);
  return objects.flatMap((object): readonly FootprintLeftover[] => {
    const {
      namespace = "",
      name = "",
      uid = "",
      resourceVersion = "",
      finalizers = [],
    } = object.metadata ?? {};
    const body = removeFinalizer({ metadata: { uid, resourceVersion, finalizers } }, finalizer);
    if (body === undefined) return [];
    const about = defineResource({ group, version, plural, kind: "", namespaced: namespace !== "" });
    const of = { name, ...(namespace !== "" && { namespace }) };
    return [
      {
        object: `${nameOfResource(about)} ${namespace === "" ? name : `${namespace}/${name}`}`,
        what: `finalizer ${finalizer}`,
        undo: (signal) => client.patch(about, of, body, { signal }),
      },
    ];
  });
}

/** Those in which the server has written down init containers as applied by Berth: an apply of nothing takes them off. */
async function waitingDeployments(
  { client }: Session,
  surroundings: Around,
): Promise<readonly FootprintLeftover[]> {
  const objects = await listAll(deployments, {}, { client }, surroundings);
  return objects.filter(hasWait).map(({ metadata = {} }) => {
    const { namespace = "", name = "", uid = "" } = metadata;
    // The type promises a whole Deployment: an apply is of a part of it.
    const nothing = { metadata: { namespace, name, uid } } as Deployment;
    return {
      object: `deployments.apps ${namespace}/${name}`,
      what: "its pods wait for an agent, and are rolled out anew without",
      undo: (signal) => client.apply(deployments, nothing, { fieldManager: FIELD_MANAGER, signal }),
    };
  });
}

function hasWait({ metadata }: Deployment): boolean {
  const entries = metadata?.managedFields ?? [];
  return entries.some(
    ({ manager, operation, fieldsV1 }) =>
      manager === FIELD_MANAGER &&
      operation === "Apply" &&
      JSON.stringify(fieldsV1 ?? {}).includes('"f:initContainers"'),
  );
}

/** None where there is no such kind; one that may not be read is said. */
async function listAll<T extends KubeObject>(
  resource: Resource<T>,
  options: { readonly metadataOnly?: boolean },
  { client }: Pick<Session, "client">,
  { stderr, signal }: Around,
): Promise<readonly T[]> {
  const found: T[] = [];
  try {
    for await (const { items } of client.pages(resource, { ...options, signal })) found.push(...items);
  } catch (error) {
    if (isApiError(error, "notFound")) return [];
    if (!isApiError(error, "forbidden")) throw error;
    stderr.write(`${resource.plural} are left out: ${describeApiError(error)}\n`);
    return [];
  }
  return found;
}

/**
 * One that is gone is as good.
 * @returns one line for each that was left as it is: it changed since it was read, or may not be written.
 */
export async function carryOutFootprintWork(
  work: readonly FootprintLeftover[],
  { signal }: Pick<Around, "signal">,
): Promise<readonly string[]> {
  const failures: string[] = [];
  for (const { object, undo } of work) {
    try {
      await undo(signal);
    } catch (error) {
      if (isApiError(error, "notFound", "uidMismatch")) continue;
      if (!isApiError(error)) throw error;
      failures.push(`${object} was left as it is: ${describeApiError(error)}`);
    }
  }
  return failures;
}

/** As data; nothing when there is nothing. */
export function describeFootprintWork(work: readonly FootprintLeftover[]): object {
  return work.length === 0 ? {} : { owners: work.map(({ object, what }) => ({ object, what })) };
}

export function formatFootprintWork(work: readonly FootprintLeftover[], verb: "will" | "would"): string {
  return work.map(({ object, what }) => `${object}: ${what}: ${verb} be taken off\n`).join("");
}
