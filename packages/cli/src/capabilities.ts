/** Berth's capabilities, in the order in which commands show them. To add a capability, add a line here. */
import {
  architecture,
  derivedLabels,
  deschedule,
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

/** Settings from flags and the environment, for all capabilities. */
export type CapabilityFlags = LabelFlags & GateFlags & ImageFlags;

/** Settings that a one-shot command gives to capabilities. */
export type OnceFlags = GivenRules & ImagesOnce;

export const capabilities: readonly NodeCapability<CapabilityFlags, OnceFlags>[] = [
  derivedLabels,
  startupGate,
  architecture,
  footprint,
  workerPool,
  deschedule,
];

/** The capabilities whose pods `clean --restart-pods` restarts. */
export const RESTARTS_PODS: readonly string[] = [architecture.name];
