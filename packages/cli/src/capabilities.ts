/** What Berth can do, in the order in which commands show it. Nothing else in the commands names a capability. */
import type { Documents } from "@berth/host";
import {
  ARCHITECTURE,
  architectureOnce,
  architectureRules,
  type CleanAt,
  type CleaningCapability,
  FOOTPRINT,
  footprintOnce,
  footprintRules,
  GATES,
  gateRules,
  gatesOnce,
  imageRegistriesKind,
  poolsClean,
  workerPoolsKind,
} from "@berth/placement";
import { labelsOnce } from "./label-once.ts";
import {
  type OnceCapability,
  onceCapability,
  type Purpose,
  type ReadCapability,
  type ReadOptions,
} from "./once.ts";
import { readRegistrySettings } from "./registry-settings.ts";
import { VERSION } from "./version.ts";

/** Whose pods `clean --restart-pods` has made anew. */
export const RESTARTS_PODS: readonly string[] = [ARCHITECTURE];

function onceCapabilities(settings: Documents): readonly OnceCapability[] {
  const images = {
    registries: () => readRegistrySettings(settings.specOf(imageRegistriesKind)),
    userAgent: `berth/${VERSION}`,
  };
  return [
    labelsOnce,
    onceCapability(GATES, gateRules, gatesOnce),
    onceCapability(ARCHITECTURE, architectureRules, architectureOnce(images)),
    onceCapability(FOOTPRINT, footprintRules, footprintOnce),
    {
      name: "worker-pools",
      does: ["clean"],
      async read({ files: { settings } }) {
        const workerPools = settings.specOf(workerPoolsKind);
        const clean = (at: CleanAt): Promise<CleaningCapability> => poolsClean.clean(workerPools, at);
        return { isGiven: workerPools !== undefined, faults: [], refused: [], clean };
      },
    },
  ];
}

type NamedCapability = ReadCapability & Pick<OnceCapability, "name">;

/** Reads the documents of the capabilities that do this, one after the other. */
export async function readCapabilities(
  options: ReadOptions,
  purpose: Purpose,
): Promise<readonly NamedCapability[]> {
  const read: NamedCapability[] = [];
  for (const one of onceCapabilities(options.files.settings))
    if (one.does.includes(purpose)) read.push({ ...(await one.read(options)), name: one.name });
  return read;
}
