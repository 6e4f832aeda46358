/** The owners that footprints hold, for one-shot commands. */
import { eachObject, keepFields, type OneShotRun, readObjects } from "@berth/host";
import type { KubeObject, Resource } from "@berth/kube";
import { addFinalizer } from "@berth/runtime";
import { type Footprint, type Footprints, type OwnerHold } from "./footprint.ts";
import { guardName, heldName, resourceName, resourceOf } from "./hold/held-resource.ts";

/** Calls `take` with the metadata and the resource of each owner. */
export async function eachOwner(
  { resource: named }: Pick<OwnerHold, "resource">,
  run: Pick<OneShotRun, "client" | "leftOut" | "signal">,
  take: (object: KubeObject, resource: Resource) => void,
): Promise<void> {
  await eachObject({ resource: resourceOf(named), metadataOnly: true }, run, (object) =>
    take(object, resourceOf(named, object.metadata?.namespace !== undefined)),
  );
}

/** One hold for each resource and finalizer: several footprints may ask for the same hold. */
export function distinctHolds(footprints: readonly Footprint[]): readonly OwnerHold[] {
  const holds = footprints.flatMap(({ hold }) => hold ?? []);
  return [...new Map(holds.map((hold) => [guardName(hold), hold])).values()];
}

/** Changes of footprints to objects other than nodes. */
export interface FootprintEffects {
  /** Owners that would get a finalizer, in the order of the server. */
  readonly owners: readonly { readonly owner: string; readonly finalizer: string }[];
}

/** For `plan`. Reports and skips resources that the command may not read. */
export async function findFootprintEffects(
  { footprints }: Pick<Footprints, "footprints">,
  run: OneShotRun,
): Promise<FootprintEffects> {
  const owners: { owner: string; finalizer: string }[] = [];
  for (const hold of distinctHolds(footprints)) {
    const { finalizer } = hold;
    const read = {
      name: "held-owners",
      resource: resourceOf(hold.resource),
      metadataOnly: true,
      project: keepFields(["metadata.finalizers", "metadata.deletionTimestamp"]),
      consequence: `which of them would get the finalizer ${finalizer} is unknown`,
    };
    for (const object of (await readObjects(read, run)) ?? []) {
      const { namespace = "", name = "" } = object.metadata ?? {};
      const owner = `${resourceName(hold.resource)} ${heldName({ namespace, name })}`;
      if (addFinalizer(object, finalizer) !== undefined) owners.push({ owner, finalizer });
    }
  }
  return { owners };
}
