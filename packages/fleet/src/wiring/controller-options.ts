import type { Host } from "@berth/host";
import type { ObjectKey } from "@berth/runtime";
import type { Quota } from "../claims/quota.ts";
import type { FleetSpec } from "../fleet/document.ts";
import type { Caches } from "./caches.ts";
import type { FleetMetrics } from "./metrics.ts";
import type { NetworkStep } from "./network-step.ts";

/** What the controllers of a fleet have in common. */
export interface ControllerOptions {
  readonly host: Host;
  /** The name of the Lease whose leader runs them. */
  readonly lease: string;
  readonly spec: FleetSpec;
  readonly caches: Caches;
  readonly quota: Quota;
  readonly network: NetworkStep;
  readonly metrics: FleetMetrics;
  /** Asks for another decision about an Instance. */
  readonly recheck: (instance: ObjectKey) => void;
}
