/** What `berth clean` undoes of footprints beside the nodes: finalizers on owners, and waits in Deployments. */
import { type Deployment, deployments, isApiError } from "@berth/kube";
import { FIELD_MANAGER, type Footprints, type OwnerHold } from "@berth/placement";
import { removeFinalizer } from "@berth/runtime";
import { describeApiError } from "./failure-text.ts";
import { distinctHolds, eachOwner } from "./footprint-owners.ts";
import { eachObject } from "./listing.ts";
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
  for (const hold of distinctHolds({ footprints: inForce }))
    found.push(...(await heldOwners(hold, session, surroundings)));
  if (inForce.some(({ wait }) => wait?.inject === "ServerSideApply"))
    found.push(...(await waitingDeployments(session, surroundings)));
  return found;
}

async function heldOwners(
  hold: OwnerHold,
  session: Session,
  surroundings: Around,
): Promise<readonly FootprintLeftover[]> {
  const { finalizer } = hold;
  const found: FootprintLeftover[] = [];
  await eachOwner(hold, { session, surroundings }, ({ object, resource, text }) => {
    const {
      namespace = "",
      name = "",
      uid = "",
      resourceVersion = "",
      finalizers = [],
    } = object.metadata ?? {};
    const body = removeFinalizer({ metadata: { uid, resourceVersion, finalizers } }, finalizer);
    if (body === undefined) return;
    const of = { name, ...(namespace !== "" && { namespace }) };
    found.push({
      object: text,
      what: `finalizer ${finalizer}`,
      undo: (signal) => session.client.patch(resource, of, body, { signal }),
    });
  });
  return found;
}

/** Those in which the server has written down init containers as applied by Berth: an apply of nothing takes them off. */
async function waitingDeployments(
  session: Session,
  surroundings: Around,
): Promise<readonly FootprintLeftover[]> {
  const found: FootprintLeftover[] = [];
  await eachObject({ resource: deployments }, { session, surroundings }, (deployment) => {
    if (!hasWait(deployment)) return;
    const { namespace = "", name = "", uid = "" } = deployment.metadata ?? {};
    // The type promises a whole Deployment: an apply is of a part of it.
    const nothing = { metadata: { namespace, name, uid } } as Deployment;
    found.push({
      object: `deployments.apps ${namespace}/${name}`,
      what: "its pods wait for an agent, and are rolled out anew without",
      undo: (signal) => session.client.apply(deployments, nothing, { fieldManager: FIELD_MANAGER, signal }),
    });
  });
  return found;
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
