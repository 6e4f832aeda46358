/** Berth's capabilities, in the order in which commands show them. To add a capability, add a line here. */
import { type FleetHost, fleet } from "@berth/fleet";
import { type Capability, type FieldMask, keepFields } from "@berth/host";
import type { Node, Projection } from "@berth/kube";
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
export type CapabilityFlags = LabelFlags & GateFlags & ImageFlags & Pick<FleetHost, "fleet">;

/** Settings that a one-shot command gives to capabilities. */
export type OnceFlags = GivenRules & ImagesOnce;

/** Those that decide about Nodes, or about what runs on them. */
export const nodeCapabilities: readonly NodeCapability<CapabilityFlags, OnceFlags>[] = [
  derivedLabels,
  startupGate,
  architecture,
  footprint,
  workerPool,
  deschedule,
];

export const capabilities: readonly Pick<
  Capability<never>,
  "name" | "kinds" | "foreignKinds" | "admission" | "changes" | "permissions"
>[] = [...nodeCapabilities, fleet];

/** What is kept of each Node: the fields that any capability reads. @param more fields that only a command reads. */
export function nodeProjection(more: FieldMask = []): Projection<Node> {
  return keepFields(...nodeCapabilities.map(({ fields = [] }) => fields), more);
}
