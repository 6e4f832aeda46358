/** Rules about `spec.template.spec.volumes`. */
import { diskFaults } from "./disk.ts";
import type { Faults } from "./fault.ts";
import type { Field } from "./field.ts";
import { nameFaults } from "./names.ts";

/** @param attached names of volumes that a container or virtual machine attaches. */
export function* volumeFaults(volumes: Field, attached: ReadonlySet<string>): Faults {
  const [names, devices] = [new Set<string>(), new Set<string>()];
  for (const [at, volume] of volumes.items().map((it, index) => [index, it] as const)) {
    const device = volume.get("disk").get("deviceName");
    // The original computes the default for volumes of all sources.
    yield* device.unique(devices, device.text || `persistent-disk-${at}`);
    yield* sourceFaults(volume);
    const name = volume.get("name");
    const isFirst = name.text !== "" && !names.has(name.text);
    yield* nameFaults(name, names);
    if (isFirst && !attached.has(name.text)) yield name.required("volume must be attached at least 1 time");
  }
}

const SOURCES: Readonly<Record<string, (source: Field) => Faults>> = {
  disk: diskFaults,
  configMap: (source) => projectionFaults(source, source.get("name")),
  secret: (source) => projectionFaults(source, source.get("secretName")),
};

/** Exactly one source. Only the first one is looked into. */
function* sourceFaults(volume: Field): Faults {
  let isGiven = false;
  for (const [name, check] of Object.entries(SOURCES)) {
    const source = volume.get(name);
    if (!source.isSet) continue;
    if (isGiven) yield source.forbidden("may not specify more than 1 volume source");
    else yield* check(source);
    isGiven = true;
  }
  if (!isGiven) yield volume.required("must specify a volume source");
}

function* projectionFaults(source: Field, name: Field): Faults {
  if (name.text === "") yield name.required();
  const mode = source.get("defaultMode");
  const isMode = Number.isInteger(mode.value) && mode.integer >= 0 && mode.integer <= 0o777;
  if (mode.isSet && !isMode)
    yield mode.invalid("must be a number between 0 and 0777 (octal), both inclusive");
  const items = source.get("items");
  if (items.size > 0) yield items.forbidden("not implemented");
}
