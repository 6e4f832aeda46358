import type { Documents } from "@berth/host";
import type { Component, StartStage } from "@berth/runtime";
import type { BoundCapability } from "./capability.ts";
import type { NodeObserver } from "./observer.ts";

/** What a capability adds to a running Berth. */
export interface Wired {
  /** What it decides about nodes. Absent: nothing. */
  readonly capability?: BoundCapability;
  /** Gets what the node writer decides. */
  readonly observer?: NodeObserver;
  /** Gets the configuration files as they change. */
  readonly onSettings?: (settings: Documents) => void;
  /** What it runs, by when it starts. */
  readonly components: Readonly<Partial<Record<StartStage, readonly Component[]>>>;
}
