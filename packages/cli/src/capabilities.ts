/** What Berth can do, in the order in which commands show it. Nothing else in the commands names a capability. */
import { architectureOnce, gatesOnce } from "@berth/placement";
import { architectureDocuments } from "./architecture-policies.ts";
import type { Settings } from "./config/settings.ts";
import { footprintDocuments } from "./footprint/footprints.ts";
import { footprintOnce } from "./footprint/once.ts";
import { labelsOnce } from "./label-once.ts";
import { type OnceCapability, onceCapability, type ReadCapability, type ReadOptions } from "./once.ts";
import { readRegistrySettings } from "./registry-settings.ts";
import { gateDocuments } from "./startup-gates.ts";
import { VERSION } from "./version.ts";

function onceCapabilities(settings: Settings): readonly OnceCapability[] {
  const images = {
    registries: () => readRegistrySettings(settings.imageRegistries),
    userAgent: `berth/${VERSION}`,
  };
  return [
    labelsOnce,
    onceCapability(gateDocuments, gatesOnce),
    onceCapability(architectureDocuments, architectureOnce(images)),
    onceCapability(footprintDocuments, footprintOnce),
  ];
}

/** Reads the documents of capabilities, one after the other. @param which those that explain pods, that others wait for, or all. */
export async function readCapabilities(
  options: ReadOptions,
  which: "pods" | "facts" | "all" = "all",
): Promise<readonly ReadCapability[]> {
  const read: ReadCapability[] = [];
  for (const one of onceCapabilities(options.files.settings))
    if (which === "all" || one.does.includes(which)) read.push(await one.read(options));
  return read;
}
