/** What the reconcilers of a hub share. */
import type { Host, KeySource } from "@berth/host";
import type { CurrentFleet } from "../../fleet/follow.ts";
import type { FleetMetrics } from "../metrics.ts";
import type { Knowledge } from "./knowledge.ts";
import type { Lags } from "./lags.ts";
import type { HubMemory } from "./memory.ts";
import type { HubMetrics } from "./metrics.ts";
import type { Moves } from "./moves.ts";
import type { Pace, PaceOptions } from "./pace.ts";
import type { Planes } from "./planes.ts";
import type { PresentClient } from "./sender.ts";
import type { StrayDeployments } from "./strays.ts";

/** The keys that each reconciler is asked to look at. See the README of `hub/`. */
export interface HubKeys {
  /** Workloads of projects. */
  readonly workloads: KeySource;
  /** Deployments of projects. */
  readonly federator: KeySource;
  /** Deployments of the hub. */
  readonly placements: KeySource;
  /** The same, each in the clusters of cells. */
  readonly carry: KeySource;
  /** Withdrawals. */
  readonly withdrawals: KeySource;
  /** The same, each in the cluster of its cell. */
  readonly withdrawing: KeySource;
  /** Instances of the hub, each in the cluster of its cell. */
  readonly collect: KeySource;
  /** Instances of projects. */
  readonly projector: KeySource;
  /** Cells, each in its own cluster. */
  readonly names: KeySource;
  /** Cells. */
  readonly cells: KeySource;
  /** PropagationPolicies of the hub, and how Karmada reads the status of deployments: that has no namespace. */
  readonly policies: KeySource;
}

export interface HubParts {
  readonly host: Host;
  readonly fleet: CurrentFleet;
  /** The name of the Lease whose leader runs the controllers. */
  readonly lease: string;
  /** Berth's own namespace. */
  readonly home: string;
  readonly planes: Planes;
  readonly know: Knowledge;
  readonly memory: HubMemory;
  readonly strays: StrayDeployments;
  readonly moves: Moves;
  readonly lags: Lags;
  /** Writes that cells cause, by the uid of the cell. */
  readonly cellPace: Pace;
  readonly metrics: FleetMetrics;
  readonly counts: HubMetrics;
  readonly asked: HubKeys;
  readonly hubClient: PresentClient;
  readonly ownClient: PresentClient;
}

/**
 * Writes on the hub that one cell may cause. A cell that starts a thousand Instances at once takes less than the burst; one
 * whose Instances never rest gets no more than the rate.
 */
export const CELL_PACE: PaceOptions = { everyMs: 10, burst: 5_000, leastWaitMs: 5_000 };

/** Until the next look while something is not read or not proven yet, ms. Most often an event comes first. */
export const LOOK_AGAIN_MS = 2_000;
