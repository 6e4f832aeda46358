/** `--device-label-fields` and `--device-class-whitelist`: the user's configuration of the NFD worker. */
import { DEVICE_DEFAULTS, DEVICE_FIELDS, type DeviceConfig, type DeviceSource } from "./nfd-devices.ts";

export interface DeviceOptions {
  /** `vendor,device` or `usb=vendor`. */
  readonly deviceLabelFields?: readonly string[];
  /** `02,03` or `usb=ff`. */
  readonly deviceClassWhitelist?: readonly string[];
}

/** @throws RangeError when an option is invalid; the message names the option and the problem. */
export function toDeviceConfig(options: DeviceOptions): DeviceConfig {
  const fields = bySource("--device-label-fields", options.deviceLabelFields);
  const classes = bySource("--device-class-whitelist", options.deviceClassWhitelist);
  const labelsOf = (source: DeviceSource): DeviceConfig[DeviceSource] => {
    const known = DEVICE_FIELDS[source];
    const given = fields[source] ?? DEVICE_DEFAULTS[source].fields;
    const wrong = given.find((field) => !known.includes(field));
    if (wrong !== undefined) {
      throw usage("--device-label-fields", wrong, `fields of ${source} devices are ${known.join(", ")}`);
    }
    return {
      fields: known.filter((field) => given.includes(field)),
      classes: classes[source] ?? DEVICE_DEFAULTS[source].classes,
    };
  };
  return { pci: labelsOf("pci"), usb: labelsOf("usb") };
}

/** `a,b` without a source means PCI, because most rules are for PCI. */
function bySource(
  option: string,
  given: readonly string[] = [],
): Partial<Record<DeviceSource, readonly string[]>> {
  const entries = given.map((text) => {
    const [, source = "pci", list = ""] = /^(?:([^=]*)=)?(.*)$/.exec(text) ?? [];
    if (source !== "pci" && source !== "usb") throw usage(option, text, "the source is pci or usb");
    const items = list.toLowerCase().split(",");
    if (items.includes("")) throw usage(option, text, "it takes a list, such as class,vendor");
    return [source, items] as const;
  });
  return Object.fromEntries(entries);
}

function usage(option: string, text: string, why: string): RangeError {
  return new RangeError(`${option} ${text}: ${why}`);
}
