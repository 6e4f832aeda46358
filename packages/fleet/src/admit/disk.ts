/** Rules about `disk` of a volume. */
import type { Faults } from "./fault.ts";
import type { Field } from "./field.ts";
import { quantityOf } from "./scale.ts";

const TYPES: readonly string[] = ["pd-standard"];
const IMAGES: readonly string[] = ["datumcloud/ubuntu-2204-lts"];
const FILESYSTEMS: readonly string[] = ["ext4"];

/** In units of 10⁻⁹ bytes, as quantities are. */
const GIBIBYTE = 1_000_000_000n * 1024n ** 3n;

export function* diskFaults(disk: Field): Faults {
  const template = disk.get("template");
  if (!template.isSet) {
    yield template.required();
    return;
  }
  const spec = template.get("spec");
  const type = spec.get("type");
  // The CRD has the default.
  if (type.isSet && !TYPES.includes(type.text)) yield type.notSupported(TYPES);
  yield* populatorFaults(spec.get("populator"));
  yield* resourceFaults(spec.get("resources"), imageOf(disk).isSet);
}

/** The populator that makes a disk bootable. */
export function imageOf(disk: Field): Field {
  return populatorOf(disk).get("image");
}

export function populatorOf(disk: Field): Field {
  return disk.get("template").get("spec").get("populator");
}

function* populatorFaults(populator: Field): Faults {
  const [image, filesystem] = [populator.get("image"), populator.get("filesystem")];
  if (image.isSet && !IMAGES.includes(image.get("name").text)) yield image.get("name").notSupported(IMAGES);
  if (!filesystem.isSet) return;
  if (image.isSet) {
    yield filesystem.forbidden("may not specify more than 1 populator");
    return;
  }
  const type = filesystem.get("type");
  if (!FILESYSTEMS.includes(type.text)) yield type.notSupported(FILESYSTEMS);
}

function* resourceFaults(resources: Field, hasImage: boolean): Faults {
  if (!resources.isSet) {
    if (!hasImage) yield resources.required();
    return;
  }
  const requests = resources.get("requests");
  if (!requests.isSet) {
    yield requests.required();
    return;
  }
  const storage = requests.key("storage");
  if (!storage.isSet) {
    yield storage.required();
    return;
  }
  const size = quantityOf(storage) ?? 0n;
  if (size <= 0n) {
    yield storage.invalid("must be greater than 0");
    return;
  }
  const problems = [
    size < 10n * GIBIBYTE && "must be greater than or equal to 10Gi",
    size > 100n * GIBIBYTE && "must be less than or equal to 100Gi",
    size % GIBIBYTE !== 0n && "must be a multiple of 1Gi",
  ].filter((it) => it !== false);
  for (const problem of problems) yield storage.invalid(problem);
  if (problems.length === 0 && hasImage && size < 25n * GIBIBYTE)
    yield storage.invalid("must be greater than or equal to 25Gi");
}
