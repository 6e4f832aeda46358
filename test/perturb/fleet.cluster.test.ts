import { fleetQuota, fleetRoll } from "./fleet.ts";
import { describeSampled } from "./sampled.ts";

describeSampled(
  "a Workload runs as it should, and no more than that, however Berth is killed, kept behind, or left without events",
  [fleetRoll, fleetQuota],
);
