/** What is known of images, for the rules of architecture placement: registries are asked, and what they said is kept. */
import type { KubeClient } from "@berth/kube";
import type { ImageDemand, ImageSight } from "@berth/placement";
import type { Clock, ClusterName, Component, Logger, MetricsRegistry } from "@berth/runtime";
import type { RegistrySettings } from "./registry-settings.ts";

export interface ImageLibraryOptions {
  readonly client: KubeClient;
  readonly cluster: ClusterName;
  readonly installation: string;
  /** Berth's own, where facts are kept in ConfigMaps. Absent: in memory only, and a restart asks again. */
  readonly namespace?: string;
  /** How registries are reached; made by `readRegistrySettings`. */
  readonly registries: RegistrySettings;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: MetricsRegistry;
}

/**
 * `look` is synchronous and asks nobody; `want` has registries asked, once for each image however often it is called.
 * Each replica has its own: facts that the leader has found reach the others through ConfigMaps.
 */
export interface ImageLibrary extends ImageSight, ImageDemand {
  /**
   * Reads what was kept, before anybody is asked: to be called when a policy comes into force, and again at will. The
   * first `want` does so too. Until then nothing is watched, so that those who have no policy need no rights.
   */
  wake(): void;
  /**
   * The listener gets the name in full, as `look` has it, each time when what is said about it has changed: it is known,
   * stands for something else, or failed in another way. Must not throw.
   */
  subscribe(listener: (name: string) => void): Disposable;
  /** What every replica runs. They wait for nothing. */
  readonly always: readonly Component[];
  /** What the leader runs: it keeps the facts in ConfigMaps. */
  readonly elected: readonly Component[];
}
