/** The Pod of an Instance, also where the watch of Pods does not show it: a Pod may have lost the label of the watch. */
import type { View } from "@berth/host";
import { type KubeClient, type Pod, pods } from "@berth/kube";
import { type Change, type Clock, type ClusterName, keyOf } from "@berth/runtime";
import { ownerOf } from "../api/owner.ts";
import type { Seen } from "../api/seen.ts";
import type { Instance } from "../api/workload.ts";
import { gatesOf } from "../instance/tiers.ts";

/** Between two looks at a Pod that the watch does not show, ms. */
export const UNWATCHED_MS = 5_000;

export interface PodSightOptions {
  readonly pods: Pick<View<Pod>, "synced" | "get">;
  readonly client: Pick<KubeClient, "list">;
  readonly cluster: ClusterName;
  readonly clock: Pick<Clock, "monotonic">;
}

/** What is known of the Pod of one Instance beside the watch. */
interface Memory {
  /** Of the Instance. A pod of another namespace can name its uid. */
  readonly namespace: string | undefined;
  /** `ended`: the watch has shown its end. `lost`: it left the watch, or the name is taken, and nothing says why. */
  is?: "ended" | "lost";
  /** What the API server has of this name, monotonic ms. */
  look?: { readonly pod: Pod | undefined; readonly atMs: number };
}

/**
 * The watch is by label, so its silence is no proof that a Pod is gone. Before an Instance is released, and when a Pod
 * left the watch without being deleted, the API server is asked by name.
 */
export class PodSight {
  readonly #options: PodSightOptions;
  /** By uid of the Instance. */
  readonly #memories = new Map<string, Memory>();

  constructor(options: PodSightOptions) {
    this.#options = options;
  }

  /** A change that the watch shows. */
  shown({ type, object }: Change<Pod>): void {
    const { namespace, deletionTimestamp } = object.metadata ?? {};
    const memory = this.#memories.get(ownerOf(object)?.uid ?? "");
    if (memory === undefined || memory.namespace !== namespace) return;
    if (type === "deleted") memory.is = deletionTimestamp === undefined ? "lost" : "ended";
    else delete memory.is;
  }

  forget(uid: string): void {
    this.#memories.delete(uid);
  }

  /** The API server refused a new Pod: there may be one already. */
  doubt(instance: Instance): void {
    this.#of(instance).is = "lost";
  }

  see(instance: Instance): Seen<Pod> {
    const { pods: cached, cluster } = this.#options;
    if (!cached.synced) return { is: "unknown", because: "Berth has not read the pods" };
    const { is, look } = this.#of(instance);
    const value = cached.get(keyOf(cluster, instance)) ?? look?.pod;
    if (value !== undefined) return { is: "there", value };
    if (look !== undefined || !isEnding(instance) || is === "ended") return { is: "none" };
    return { is: "unknown", because: "Berth has not asked whether the pod is gone" };
  }

  /** Asks the API server where the watch is no proof. @returns ms until it is to be asked again. @throws ApiError */
  async look(instance: Instance, signal: AbortSignal): Promise<number | undefined> {
    const { pods: cached, cluster, client, clock } = this.#options;
    const memory = this.#of(instance);
    const isShown = !cached.synced || cached.get(keyOf(cluster, instance)) !== undefined;
    const isNeeded = !isShown && (memory.is === "lost" || (memory.is === undefined && isEnding(instance)));
    if (!isNeeded) {
      delete memory.look;
      return undefined;
    }
    const { namespace = "", name = "" } = instance.metadata ?? {};
    if (memory.look === undefined || clock.monotonic() - memory.look.atMs >= UNWATCHED_MS) {
      const { items } = await client.list(pods, {
        namespace,
        fieldSelector: `metadata.name=${name}`,
        signal,
      });
      memory.look = { pod: items[0], atMs: clock.monotonic() };
    }
    return memory.look.pod === undefined ? undefined : UNWATCHED_MS;
  }

  #of({ metadata }: Instance): Memory {
    const uid = metadata?.uid ?? "";
    const memory = this.#memories.get(uid) ?? { namespace: metadata?.namespace };
    this.#memories.set(uid, memory);
    return memory;
  }
}

/** Behind gates there has been no Pod. */
function isEnding(instance: Instance): boolean {
  return instance.metadata?.deletionTimestamp !== undefined && gatesOf(instance).length === 0;
}
