/** Reads capabilities once, for a command that does not watch. */
import { imageRegistriesKind, type Purpose, type ReadCapability, type ReadOptions } from "@berth/placement";
import { nodeCapabilities } from "./capabilities.ts";
import { readRegistrySettings } from "./registry-settings.ts";
import type { RuleFiles } from "./session.ts";
import { VERSION } from "./version.ts";

export interface NamedCapability extends ReadCapability {
  /** Its name in `--capability`. */
  readonly name: string;
}

/** Reads the documents of each capability that supports this purpose, one capability at a time. */
export async function readCapabilities(
  options: ReadOptions & { readonly files: RuleFiles },
  purpose: Purpose,
): Promise<readonly NamedCapability[]> {
  const { files } = options;
  const given = {
    ...files,
    registries: () => readRegistrySettings(files.settings.specOf(imageRegistriesKind), files.environment),
    userAgent: `berth/${VERSION}`,
  };
  const read: NamedCapability[] = [];
  for (const { name, once } of nodeCapabilities) {
    const one = once(given);
    if (one.does.includes(purpose)) read.push({ ...(await one.read(options)), name });
  }
  return read;
}
