/** Every story there is. A new one is a line here; `make perturb` tells all of them. */
import type { PerturbationStory } from "@berth/testcluster";
import { architectureAffinity, architectureHeld, architectureTaint } from "./architecture.ts";
import { descheduleMoves, descheduleOlder } from "./deschedule.ts";
import { fleetQuota, fleetRoll } from "./fleet.ts";
import { footprintClaims, footprintHold, footprintHoldEnds, footprintNeeded } from "./footprint.ts";
import { footprintPools } from "./footprint-pools.ts";
import { gatesBackfill, gatesContinuous, gatesHeld, gatesRelease } from "./gates.ts";
import { hubStories } from "./hub.ts";
import { labelsFolder, labelsFolderLong, labelsReleased } from "./labels.ts";
import { labelsRules, labelsSafety } from "./rules.ts";

export const stories: readonly PerturbationStory[] = [
  labelsFolder,
  labelsRules,
  labelsReleased,
  labelsFolderLong,
  labelsSafety,
  gatesHeld,
  gatesRelease,
  gatesBackfill,
  gatesContinuous,
  architectureHeld,
  architectureTaint,
  architectureAffinity,
  descheduleMoves,
  descheduleOlder,
  footprintNeeded,
  footprintClaims,
  footprintHold,
  footprintHoldEnds,
  footprintPools,
  fleetRoll,
  fleetQuota,
  ...hubStories,
];
