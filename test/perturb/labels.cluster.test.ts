import { labelsFolder, labelsFolderLong, labelsReleased } from "./labels.ts";
import { labelsRules, labelsSafety } from "./rules.ts";
import { describeSampled } from "./sampled.ts";

describeSampled("labels nodes the same however it is killed, kept behind, or left without events", [
  labelsFolder,
  labelsFolderLong,
  labelsReleased,
  labelsRules,
  labelsSafety,
]);
