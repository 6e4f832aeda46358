/** Which workloads Berth reads: all while a policy is in force, and then until it has released the last pod. */
import type { Component } from "@berth/runtime";
import type { NodeHost } from "../node/wired.ts";
import type { ImageLibrary } from "./images/image-library.ts";
import { createLeftovers } from "./leftovers.ts";
import type { ArchitecturePolicies } from "./policy.ts";
import type { Workloads } from "./workloads.ts";

export interface ReadingOptions extends Pick<NodeHost, "client" | "clock" | "log"> {
  readonly policies: () => ArchitecturePolicies | undefined;
  readonly workloads: Pick<Workloads, "views" | "ask" | "askAll">;
  readonly images: Pick<ImageLibrary, "wake">;
}

export function keepReading({ policies, workloads, images, ...rest }: ReadingOptions): {
  /** Call it when policies have changed. */
  changed(inForce: ArchitecturePolicies): void;
  /** For the leader. */
  readonly component: Component;
} {
  const { pods } = workloads.views;
  let isLingering = false;
  const want = (): void => {
    const { policies: inForce = [] } = policies() ?? {};
    workloads.views.want({ policies: inForce, isLingering });
    if (inForce.length > 0) images.wake();
  };
  const isIdle = (): boolean => {
    const known = policies();
    return known?.policies.length === 0 && known.policy.isUndecided !== true;
  };
  const leftovers = createLeftovers({
    ...rest,
    isIdle,
    gated: () => (pods.synced ? pods.byIndex("gated", "gated") : undefined),
    onLinger(needed) {
      // Queue the pods, so that the controller drops their state when their watch ends.
      if (!needed) workloads.ask({ pods: pods.keys() });
      isLingering = needed;
      want();
    },
  });
  return {
    component: leftovers.component,
    changed(inForce) {
      leftovers.policiesChanged(inForce.policies.length);
      // Queue all objects before their watch ends: those that Berth no longer watches must drop out of the counts.
      workloads.askAll();
      // Without policies, Berth first releases the pods that its gate holds. Only then the watches end.
      if (!isIdle()) want();
    },
  };
}
