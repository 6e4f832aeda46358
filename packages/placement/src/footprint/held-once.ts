/** The owners that footprints hold, as a command sees them. */
import { eachObject, type OneShotRun } from "@berth/host";
import { type KubeObject, nameOfResource, type Resource } from "@berth/kube";
import { addFinalizer } from "@berth/runtime";
import { type Footprint, type Footprints, type OwnerHold } from "./footprint.ts";
import { resourceName, resourceOf } from "./hold/held-resource.ts";

/** An owner, with how it is called and reached. */
export interface ListedOwner {
  readonly object: KubeObject;
  readonly resource: Resource;
  /** `workerpools.ate.dev default/pool`. */
  readonly text: string;
}

/** Their metadata. @param consequence as of `Listing`. */
export async function eachOwner(
  { resource: named }: Pick<OwnerHold, "resource">,
  run: Pick<OneShotRun, "client" | "leftOut" | "signal">,
  take: (owner: ListedOwner) => void,
  consequence?: string,
): Promise<void> {
  const listing = {
    resource: resourceOf(named),
    metadataOnly: true,
    ...(consequence !== undefined && { consequence }),
  };
  await eachObject(listing, run, (object) => {
    const { namespace = "", name = "" } = object.metadata ?? {};
    const resource = resourceOf(named, namespace !== "");
    const path = namespace === "" ? name : `${namespace}/${name}`;
    take({ object, resource, text: `${nameOfResource(resource)} ${path}` });
  });
}

/** Each finalizer on each resource once: a hold is the same, however many footprints ask for it. */
export function distinctHolds(footprints: readonly Footprint[]): readonly OwnerHold[] {
  const holds = footprints.flatMap(({ hold }) => hold ?? []);
  return [
    ...new Map(holds.map((hold) => [`${resourceName(hold.resource)} ${hold.finalizer}`, hold])).values(),
  ];
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
    const add = ({ object, text }: ListedOwner): void => {
      if (addFinalizer(object, finalizer) !== undefined) owners.push({ owner: text, finalizer });
    };
    await eachOwner(hold, run, add, consequence);
  }
  return { owners };
}
