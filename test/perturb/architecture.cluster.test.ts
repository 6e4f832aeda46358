import { architectureAffinity, architectureHeld, architectureTaint } from "./architecture.ts";
import { describeSampled } from "./sampled.ts";

describeSampled(
  "pods are held, narrowed and tolerated and nodes tainted the same however Berth is killed, kept behind, or left without events",
  [architectureAffinity, architectureHeld, architectureTaint],
);
