import { InformerSet, keepFields } from "@berth/host";
import {
  type PersistentVolume,
  type PersistentVolumeClaim,
  persistentVolumeClaims,
  persistentVolumes,
} from "@berth/kube";
import type { ClusterName, Component } from "@berth/runtime";
import { ownValue } from "../node/mark.ts";
import type { FootprintObservations, Watching } from "./footprint-observations.ts";

export interface VolumeDriversOptions extends Watching {
  /** The volume of this claim has changed or become known. Must not throw. */
  readonly onChange: (namespace: string, claim: string) => void;
  /** Berth has read the claims or the volumes. Must not throw. */
  readonly onSynced: () => void;
}

const ALL = "all";
const BY_VOLUME = "volume";

/**
 * Annotation with the driver of a volume whose plugin was once part of Kubernetes and is now served by CSI
 * (`AnnMigratedTo`, k8s.io/component-helpers/storage/volume).
 */
const MIGRATED_TO = "pv.kubernetes.io/migrated-to";
const VOLUME = ["spec.csi.driver", "metadata.annotations"];

/** The CSI drivers behind claims, read while a footprint asks for drivers. */
export class VolumeDrivers implements Pick<FootprintObservations, "driverOfClaim"> {
  readonly components: readonly Component[];
  readonly #cluster: ClusterName;
  readonly #claims: InformerSet<PersistentVolumeClaim>;
  readonly #volumes: InformerSet<PersistentVolume>;

  constructor(options: VolumeDriversOptions) {
    const { onChange } = options;
    this.#cluster = options.cluster;
    this.#claims = new InformerSet<PersistentVolumeClaim>({
      ...options,
      name: "footprint-claims",
      resource: persistentVolumeClaims,
      onChange: ({ object: { metadata } }) => onChange(metadata?.namespace ?? "", metadata?.name ?? ""),
    });
    this.#volumes = new InformerSet<PersistentVolume>({
      ...options,
      name: "footprint-volumes",
      resource: persistentVolumes,
      onChange: ({ object }) => {
        const claims = this.#claims.get(ALL)?.byIndex(BY_VOLUME, object.metadata?.name ?? "") ?? [];
        for (const { metadata } of claims) onChange(metadata?.namespace ?? "", metadata?.name ?? "");
      },
    });
    this.components = [this.#claims, this.#volumes];
  }

  want(needed: boolean): void {
    const indexes = { [BY_VOLUME]: volumeOf };
    this.#claims.want(
      needed ? [{ key: ALL, scope: {}, project: keepFields(["spec.volumeName"]), indexes }] : [],
    );
    this.#volumes.want(needed ? [{ key: ALL, scope: {}, project: keepFields(VOLUME) }] : []);
  }

  driverOfClaim(namespace: string, claim: string): string | null | undefined {
    const claims = this.#claims.get(ALL);
    const volumes = this.#volumes.get(ALL);
    if (claims === undefined || volumes === undefined) return undefined;
    const name = claims.get({ cluster: this.#cluster, namespace, name: claim })?.spec?.volumeName ?? "";
    const volume = name === "" ? undefined : volumes.get({ cluster: this.#cluster, namespace: "", name });
    return volume?.spec?.csi?.driver ?? ownValue(volume?.metadata?.annotations, MIGRATED_TO) ?? null;
  }
}

function volumeOf({ spec }: PersistentVolumeClaim): readonly string[] {
  return spec?.volumeName ? [spec.volumeName] : [];
}
