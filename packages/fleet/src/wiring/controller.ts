/** What the controllers of a fleet have in common. */
import {
  createObjectReconciler,
  type Host,
  type KeySource,
  type ObjectDecision,
  type ObjectRules,
  type View,
} from "@berth/host";
import type { KubeObject } from "@berth/kube";
import type { QueueTuning } from "@berth/runtime";
import type { Quota } from "../claims/quota.ts";
import type { CurrentFleet } from "../fleet/follow.ts";
import type { Decided } from "./concerns.ts";
import type { FleetMetrics } from "./metrics.ts";
import type { NetworkStep } from "./network-step.ts";
import type { FleetViews } from "./reads.ts";

export interface FleetParts {
  readonly host: Host;
  /** The name of the Lease whose leader runs the controllers. */
  readonly lease: string;
  readonly fleet: CurrentFleet;
  readonly views: FleetViews;
  readonly quota: Quota;
  readonly network: NetworkStep;
  readonly metrics: FleetMetrics;
  /** The keys that each controller is asked to look at. */
  readonly asked: Readonly<Record<Decided, KeySource>>;
}

export interface FleetRules<T extends KubeObject, P, D extends ObjectDecision> extends ObjectRules<T, P, D> {
  /** The label `controller` of the runtime's metrics. */
  readonly name: string;
  /** The same of the fleet's metrics. */
  readonly counted: string;
  readonly objects: Pick<View<T>, "get">;
  readonly queue?: QueueTuning;
}

export function addFleetController<T extends KubeObject, P, D extends ObjectDecision>(
  { host, lease, views, metrics }: FleetParts,
  keys: KeySource,
  { name, counted, queue, ...rules }: FleetRules<T, P, D>,
): void {
  const { runtime, client, clock, events } = host;
  const reconcile = createObjectReconciler<T, P, D>({
    ...rules,
    client: views.writing(client),
    clock,
    events,
    onRefused: (key) => keys.ask([key], "high", true),
  });
  runtime.addController({
    name,
    lease,
    sources: [keys],
    ...(queue && { queue }),
    reconcile: metrics.measured(counted, reconcile),
  });
}
