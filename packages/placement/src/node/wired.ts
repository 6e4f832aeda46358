import type { Documents, Fault, Follow } from "@berth/host";
import type { Node } from "@berth/kube";
import type {
  Clock,
  ClusterName,
  Component,
  EventRecorder,
  GuardedClient,
  Informer,
  Logger,
  MetricsRegistry,
  StartStage,
} from "@berth/runtime";
import type { BoundCapability } from "./capability.ts";
import type { NodeObserver } from "./observer.ts";

/** What every capability with documents of its own gets. */
export interface WiringDeps {
  readonly client: GuardedClient;
  readonly cluster: ClusterName;
  readonly installation: string;
  readonly nodes: Informer<Node>;
  readonly follow: Follow;
  readonly events: EventRecorder;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
  readonly onFault: (fault: Fault) => void;
}

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
