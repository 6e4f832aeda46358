/** The owners that footprints hold, as a command sees them. */
import { eachObject, type OneShotRun } from "@berth/host";
import type { KubeObject, Resource } from "@berth/kube";
import { addFinalizer } from "@berth/runtime";
import { type Footprint, type Footprints, type OwnerHold } from "./footprint.ts";
import { guardName, heldName, resourceName, resourceOf } from "./hold/held-resource.ts";

/** Their metadata, each with how it is reached. @param consequence as of `Listing`. */
export async function eachOwner(
  { resource: named }: Pick<OwnerHold, "resource">,
  run: Pick<OneShotRun, "client" | "leftOut" | "signal">,
  take: (object: KubeObject, resource: Resource) => void,
  consequence?: string,
): Promise<void> {
  const listing = { resource: resourceOf(named), metadataOnly: true };
  await eachObject({ ...listing, ...(consequence !== undefined && { consequence }) }, run, (object) =>
    take(object, resourceOf(named, object.metadata?.namespace !== undefined)),
  );
}

/** Each finalizer on each resource once: a hold is the same, however many footprints ask for it. */
export function distinctHolds(footprints: readonly Footprint[]): readonly OwnerHold[] {
  const holds = footprints.flatMap(({ hold }) => hold ?? []);
  return [...new Map(holds.map((hold) => [guardName(hold), hold])).values()];
}

/** What footprints would write beside nodes. */
export interface FootprintEffects {
  /** Owners that would get a finalizer, in the order of the server. */
  readonly owners: readonly { readonly owner: string; readonly finalizer: string }[];
}

/** For `plan`. What may not be read is said, and left out. */
export async function findFootprintEffects(
  { footprints }: Pick<Footprints, "footprints">,
  run: OneShotRun,
): Promise<FootprintEffects> {
  const owners: { owner: string; finalizer: string }[] = [];
  for (const hold of distinctHolds(footprints)) {
    const { finalizer } = hold;
    const consequence = `which of them would get the finalizer ${finalizer} is unknown`;
    const add = (object: KubeObject): void => {
      const { namespace = "", name = "" } = object.metadata ?? {};
      const owner = `${resourceName(hold.resource)} ${heldName({ namespace, name })}`;
      if (addFinalizer(object, finalizer) !== undefined) owners.push({ owner, finalizer });
    };
    await eachOwner(hold, run, add, consequence);
  }
  return { owners };
}
