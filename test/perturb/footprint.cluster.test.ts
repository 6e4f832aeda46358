import { footprintClaims, footprintHold, footprintHoldEnds, footprintNeeded } from "./footprint.ts";
import { footprintPools } from "./footprint-pools.ts";
import { describeSampled } from "./sampled.ts";

describeSampled(
  "nodes carry label and claims by their pods however Berth is killed, kept behind, or left without events",
  [footprintClaims, footprintHold, footprintHoldEnds, footprintNeeded, footprintPools],
);
