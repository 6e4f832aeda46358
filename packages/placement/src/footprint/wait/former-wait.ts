/**
 * An earlier release put the wait into Deployments by server-side apply. `berth clean` takes these containers off, in this
 * release only. Pure.
 */
import { baseName } from "@berth/host";
import type { Deployment } from "@berth/kube";
import { itemKey, ownEntry, ownedAt } from "../../node/managed-fields.ts";
import { isRecord } from "../../node/untrusted-json.ts";

/** The field manager that an installation applied with. */
export function formerWaitManager(installation: string): string {
  return baseName(installation);
}

const INIT_CONTAINERS = ["f:spec", "f:template", "f:spec", "f:initContainers"];

/** Names of the init containers that an installation has applied to a Deployment. */
export function formerWaits(
  { metadata }: Pick<Deployment, "metadata">,
  installation: string,
): readonly string[] {
  const entry = ownEntry(metadata?.managedFields ?? [], formerWaitManager(installation));
  const owned = ownedAt(entry, INIT_CONTAINERS);
  return Object.keys(isRecord(owned) ? owned : {}).flatMap((item) => {
    const name = itemKey(item, "name");
    return typeof name === "string" ? [name] : [];
  });
}
