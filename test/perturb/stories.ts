/** Every story there is. A new one is a line here; `make perturb` tells all of them. */
import type { PerturbationStory } from "@berth/testcluster";
import { labelsFolder, labelsFolderLong, labelsReleased } from "./labels.ts";

export const stories: readonly PerturbationStory[] = [labelsFolder, labelsReleased, labelsFolderLong];
