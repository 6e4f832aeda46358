/** `StartupGate` as the API server serves it: resource, status and how kubectl shows it. */

import { conditions, observedGeneration, type ServedKind } from "@berth/host";
import { type Condition, defineResource, type KubeObject, type Resource } from "@berth/kube";
import * as z from "zod";
import { API_GROUP, API_GROUP_VERSION } from "../api/group.ts";
import { MAX_FIRST_NODES } from "../node/first-names.ts";
import { type StartupGateSpec, type StartupGateStatus, startupGateSpec } from "./document.ts";

/** A StartupGate on the wire. */
export interface StartupGate extends KubeObject {
  /** As stored: parse it with `startupGateSpec` before use. */
  readonly spec?: unknown;
  readonly status?: StartupGateStatus & { readonly conditions?: readonly Condition[] };
}

export const startupGates: Resource<StartupGate> = defineResource({
  group: API_GROUP,
  version: API_GROUP_VERSION,
  plural: "startupgates",
  kind: "StartupGate",
  namespaced: false,
});

const count = (what: string): z.ZodType => z.int().min(0).optional().describe(what);

const status: z.ZodType = z
  .strictObject({
    observedGeneration,
    selectedNodes: count("Nodes that the gate selects."),
    heldNodes: count("Nodes that it holds now."),
    timedOutNodes: count("Held nodes that took longer than a timeout."),
    firstNodes: z
      .array(z.string().max(253))
      .max(MAX_FIRST_NODES)
      .optional()
      .describe("The first held nodes by name, in a dry run those that would be held; never all of them."),
    wouldHoldNodes: count("Nodes that the gate would hold. Only in a dry run."),
    wouldReleaseNodes: count("Nodes with the taint that the gate would release. Only in a dry run."),
    conditions,
  })
  .describe("What Berth observed last. Only Berth writes it.");

export const startupGateKind: ServedKind<StartupGateSpec> = {
  kind: "StartupGate",
  whenAway: "release",
  resource: startupGates,
  singular: "startupgate",
  shortNames: ["sg"],
  description:
    "A StartupGate keeps pods off a fresh node until it is truly ready. The node gets a taint at its creation, which Berth " +
    "removes once all signals have held for a while: pods on it, DaemonSets, conditions, annotations, resources, labels.",
  spec: startupGateSpec,
  status,
  columns: [
    {
      name: "Taint",
      type: "string",
      jsonPath: ".spec.taint.key",
      description: "The taint that holds a node.",
    },
    { name: "Held", type: "integer", jsonPath: ".status.heldNodes", description: "Nodes held now." },
    {
      name: "Timed-Out",
      type: "integer",
      jsonPath: ".status.timedOutNodes",
      description: "Held nodes that took longer than a timeout.",
    },
    {
      name: "Ready",
      type: "string",
      jsonPath: '.status.conditions[?(@.type=="Ready")].status',
      description: "Whether the gate is in force.",
    },
    {
      name: "Admission",
      type: "string",
      jsonPath: '.status.conditions[?(@.type=="Admission")].reason',
      description: "What puts the taint on nodes when they are created.",
    },
    { name: "Mode", type: "string", jsonPath: ".spec.mode", priority: 1, description: "Once or Continuous." },
    {
      name: "Selected",
      type: "integer",
      jsonPath: ".status.selectedNodes",
      priority: 1,
      description: "Nodes that the gate selects.",
    },
    {
      name: "Dry-Run",
      type: "boolean",
      jsonPath: ".spec.dryRun",
      priority: 1,
      description: "Whether the gate only reports.",
    },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
};
