/** What Berth can do, in the order in which commands show it: a new capability is a line here. */
import {
  architecture,
  derivedLabels,
  footprint,
  type GateFlags,
  type GivenRules,
  type ImageFlags,
  type ImagesOnce,
  type LabelFlags,
  type NodeCapability,
  startupGate,
  workerPool,
} from "@berth/placement";

/** What flags and the environment say, each for the capability that asks. */
export type CapabilityFlags = LabelFlags & GateFlags & ImageFlags;

/** What a command gives that looks once. */
export type OnceFlags = GivenRules & ImagesOnce;

export const capabilities: readonly NodeCapability<CapabilityFlags, OnceFlags>[] = [
  derivedLabels,
  startupGate,
  architecture,
  footprint,
  workerPool,
];

/** Whose pods `clean --restart-pods` has made anew. */
export const RESTARTS_PODS: readonly string[] = [architecture.name];
