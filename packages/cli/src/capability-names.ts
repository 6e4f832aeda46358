/** The names of the listed capabilities, for help and for the check of arguments. */
import { capabilities } from "./capabilities.ts";
import type { CapabilityNames } from "./declarations/shared-options.ts";

export const capabilityNames: CapabilityNames = {
  all: capabilities.map(({ name }) => name),
  // Those with kinds of other projects are asked for by flags and documents.
  optional: capabilities.flatMap(({ name, foreignKinds }) => (foreignKinds === undefined ? [name] : [])),
};
