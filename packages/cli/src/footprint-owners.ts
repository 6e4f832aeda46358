/** The owners that footprints hold, as a command sees them. */
import { defineResource, type KubeObject, nameOfResource, type Resource } from "@berth/kube";
import type { Footprints, OwnerHold } from "@berth/placement";
import { eachObject, type ListingSurroundings } from "./listing.ts";

/** An owner, with how it is called and reached. */
export interface ListedOwner {
  readonly object: KubeObject;
  readonly resource: Resource;
  /** `workerpools.ate.dev default/pool`. */
  readonly text: string;
}

/** Each finalizer on each resource once, however many footprints hold by it. */
export function distinctHolds({ footprints }: Pick<Footprints, "footprints">): readonly OwnerHold[] {
  const holds = new Map<string, OwnerHold>();
  for (const { hold } of footprints)
    if (hold !== undefined) holds.set(JSON.stringify([hold.resource, hold.finalizer]), hold);
  return [...holds.values()];
}

/** Their metadata. @param consequence as of `Listing`. */
export async function eachOwner(
  { resource: { group, version, resource: plural } }: OwnerHold,
  around: ListingSurroundings & { readonly consequence?: string },
  take: (owner: ListedOwner) => void,
): Promise<void> {
  const of = (namespaced: boolean): Resource =>
    defineResource({ group, version, plural, kind: "", namespaced });
  const { consequence } = around;
  const listing = {
    resource: of(true),
    metadataOnly: true,
    ...(consequence !== undefined && { consequence }),
  };
  await eachObject(listing, around, (object) => {
    const { namespace = "", name = "" } = object.metadata ?? {};
    const resource = of(namespace !== "");
    const path = namespace === "" ? name : `${namespace}/${name}`;
    take({ object, resource, text: `${nameOfResource(resource)} ${path}` });
  });
}
