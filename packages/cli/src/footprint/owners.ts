/** The owners that footprints hold, as a command sees them. */

import { eachObject, type OneShotRun } from "@berth/host";
import { type KubeObject, nameOfResource, type Resource } from "@berth/kube";
import { type Footprints, type OwnerHold, resourceName, resourceOf } from "@berth/placement";

/** An owner, with how it is called and reached. */
export interface ListedOwner {
  readonly object: KubeObject;
  readonly resource: Resource;
  /** `workerpools.ate.dev default/pool`. */
  readonly text: string;
}

/** A hold, however many footprints and versions ask for it. */
export interface DistinctHold extends OwnerHold {
  /** Of its resource, each once: not all of them need be served. */
  readonly versions: readonly string[];
}

/** Each finalizer on each resource once: versions of one resource are the same objects. */
export function distinctHolds({ footprints }: Pick<Footprints, "footprints">): readonly DistinctHold[] {
  const holds = new Map<string, DistinctHold>();
  for (const { hold } of footprints) {
    if (hold === undefined) continue;
    const { resource, finalizer } = hold;
    const key = `${resourceName(resource)} ${finalizer}`;
    const versions = new Set(holds.get(key)?.versions).add(resource.version);
    holds.set(key, { ...hold, versions: [...versions] });
  }
  return [...holds.values()];
}

/** Their metadata, by the first version that can be read. @param consequence as of `Listing`. */
export async function eachOwner(
  { resource: named, versions }: Pick<DistinctHold, "resource" | "versions">,
  run: Pick<OneShotRun, "client" | "leftOut" | "signal">,
  take: (owner: ListedOwner) => void,
  consequence?: string,
): Promise<void> {
  for (const version of versions) {
    const of = { ...named, version };
    const listing = {
      resource: resourceOf(of),
      metadataOnly: true,
      ...(consequence !== undefined && { consequence }),
    };
    const isRead = await eachObject(listing, run, (object) => {
      const { namespace = "", name = "" } = object.metadata ?? {};
      const resource = resourceOf(of, namespace !== "");
      const path = namespace === "" ? name : `${namespace}/${name}`;
      take({ object, resource, text: `${nameOfResource(resource)} ${path}` });
    });
    if (isRead) return;
  }
}
