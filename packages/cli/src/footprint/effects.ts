/** The owners that footprints would hold, looked up for `plan`: each kind is listed once, and only if a document asks. */

import type { OneShotRun } from "@berth/host";
import { type Footprints, wouldHold } from "@berth/placement";
import { distinctHolds, eachOwner } from "./owners.ts";

export interface FootprintEffects {
  /** Owners that would get a finalizer, in the order of the server. */
  readonly owners: readonly { readonly owner: string; readonly finalizer: string }[];
}

/** What may not be read is said, and left out. */
export async function findFootprintEffects(
  footprints: Footprints,
  run: OneShotRun,
): Promise<FootprintEffects> {
  const owners: { owner: string; finalizer: string }[] = [];
  for (const hold of distinctHolds(footprints)) {
    const consequence = `which of them would get the finalizer ${hold.finalizer} is unknown`;
    await eachOwner(
      hold,
      run,
      ({ object, text }) => {
        if (wouldHold(hold, object)) owners.push({ owner: text, finalizer: hold.finalizer });
      },
      consequence,
    );
  }
  return { owners };
}
