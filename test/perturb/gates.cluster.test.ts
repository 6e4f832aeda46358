import { gatesBackfill, gatesContinuous, gatesHeld, gatesRelease } from "./gates.ts";
import { describeSampled } from "./sampled.ts";

describeSampled(
  "gates hold and let go of nodes the same however they are killed, kept behind, or left without events",
  [gatesBackfill, gatesContinuous, gatesHeld, gatesRelease],
);
