/** The state that Berth keeps for itself, which `berth clean` deletes after all else. */
import { certificateLabels, eachObject, type Listing, type OneShotRun, type Undo } from "@berth/host";
import { configMaps, type KubeObject, leases, secrets } from "@berth/kube";
import { IMAGE_FACTS_LABEL, placeConfigMapName } from "@berth/placement";
import { baseName } from "./installation-name.ts";

/** The state that Berth keeps for itself in its namespace, and that `berth manifests` does not print. */
export async function findState(namespace: string, run: OneShotRun): Promise<readonly Undo[]> {
  const { installation } = run;
  const base = baseName(installation);
  const labelSelector = Object.entries(certificateLabels(installation)).map(
    ([key, value]) => `${key}=${value}`,
  );
  const kinds: readonly Listing<KubeObject>[] = [
    { resource: leases, fieldSelector: `metadata.name=${base}` },
    { resource: secrets, labelSelector: labelSelector.join(",") },
    { resource: configMaps, fieldSelector: `metadata.name=${placeConfigMapName(installation)}` },
    { resource: configMaps, labelSelector: `${IMAGE_FACTS_LABEL}=${installation}` },
  ];
  const found: Undo[] = [];
  for (const kind of kinds)
    await eachObject({ ...kind, namespace, metadataOnly: true }, run, (object) => {
      found.push({ resource: kind.resource, object, what: "state of Berth", how: { do: "delete" } });
    });
  return found;
}
