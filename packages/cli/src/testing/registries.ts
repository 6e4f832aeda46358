/** Registries of this machine, in the configuration as a user would list them. */

import { imageRegistriesKind, type RegistrySettings } from "@berth/placement";
import { readRegistrySettings } from "../registry-settings.ts";

interface Registry {
  readonly host: string;
}

/** The document that lists these registries, as JSON, which is YAML. */
export function registriesDocument(...registries: readonly Registry[]): string {
  const spec = { registries: registries.map(({ host }) => ({ registry: host })) };
  const metadata = { name: "default" };
  return JSON.stringify({ apiVersion: "berth.dev/v1alpha1", kind: "ImageRegistries", metadata, spec });
}

/** What Berth makes of that document. */
export function listing(...registries: readonly Registry[]): Promise<RegistrySettings> {
  return readRegistrySettings(
    imageRegistriesKind.spec.parse(JSON.parse(registriesDocument(...registries)).spec),
  );
}
