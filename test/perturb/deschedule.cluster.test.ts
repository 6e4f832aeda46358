import { descheduleMoves } from "./deschedule.ts";
import { describeSampled } from "./sampled.ts";

describeSampled(
  "pods move once, and one by one, however Berth is killed, kept behind, or left without events",
  [descheduleMoves],
);
