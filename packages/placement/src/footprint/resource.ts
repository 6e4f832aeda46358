/** `NodeFootprint` as the API server serves it: resource, status and how kubectl shows it. */

import { conditionOf, type Remark, type ServedKind, toRemark } from "@berth/host";
import type { Resource } from "@berth/kube";
import * as z from "zod";
import {
  admissionRemarks,
  age,
  type Column,
  column,
  condition,
  count,
  type Served,
  servedResource,
  statusWith,
  wide,
} from "../api/served.ts";
import { type NodeFootprintSpec, nodeFootprintSpec } from "./document.ts";

export type NodeFootprint = Served<NodeFootprintStatus>;

export const nodeFootprints: Resource<NodeFootprint> = servedResource("nodefootprints", "NodeFootprint");

/** How many holds `status.holds` lists at most, and how many nodes and pods each of them names. */
export const MAX_HOLDS = 5;
/** A namespace and a name: at most 63 + 253 characters, and a separator. */
const MAX_NAME = 330;

const READY_PODS = "Ready pods of the agent, at most one for each node that needs it.";
const firstNames = (what: string) =>
  z.array(z.string().max(MAX_NAME)).max(MAX_HOLDS).readonly().describe(what);

const hold = z.strictObject({
  name: z.string().max(MAX_NAME).describe("Namespace and name."),
  uid: z.string().max(64).describe("Its uid."),
  since: z.string().meta({ format: "date-time" }).describe("When its deletion was asked for."),
  nodes: firstNames("The first nodes with pods of it."),
  pods: firstNames("The first pods of it, by namespace and name."),
});

const status = statusWith({
  nodes: z
    .strictObject({
      labelled: count("Nodes with the label."),
      pending: count(
        "Nodes that need the agent and have no label yet. Absent while this is not known for every node.",
      ),
      unknown: count("Nodes for which Berth does not know whether they need the agent."),
      agentReady: count(READY_PODS),
      agentUnschedulable: count("Nodes that need the agent and where its DaemonSet cannot run."),
    })
    .optional()
    .describe("How many there are, without their names."),
  claims: count("Groups that claim a node, over all nodes."),
  holds: z
    .array(hold)
    .max(MAX_HOLDS)
    .readonly()
    .optional()
    .describe("The first owners whose deletion waits for their pods."),
});
export type NodeFootprintStatus = z.infer<typeof status>;

const counted = (name: string, path: string, description: string): Column =>
  column(name, "integer", `.status${path}`, description);
const told = (name: string, type: string, description: string): Column =>
  column(name, "string", condition(type), description);

export const nodeFootprintKind: ServedKind<NodeFootprintSpec> = {
  kind: "NodeFootprint",
  whenAway: "keep",
  resource: nodeFootprints,
  singular: "nodefootprint",
  shortNames: ["nf"],
  description:
    "A NodeFootprint makes an agent run only on nodes whose pods need it. They get the label that the node selector of its " +
    "DaemonSet asks for, and claims of the groups that need it. It can hold the deletion of owners until their pods are gone.",
  spec: nodeFootprintSpec,
  status,
  shown: { remarks },
  columns: [
    column("Preset", "string", ".spec.preset", "Sets the fields that are not given."),
    counted("Labelled", ".nodes.labelled", "Nodes with the label."),
    counted("Pending", ".nodes.pending", "Nodes that need the agent and have no label yet."),
    counted("Unknown", ".nodes.unknown", "Nodes for which Berth does not know whether they need the agent."),
    counted("Agent", ".nodes.agentReady", READY_PODS),
    counted("Claims", ".claims", "Groups that claim a node."),
    told("Ready", "Ready", "Whether the footprint is in force."),
    told("Placed", "AgentPlaced", "Whether the agent can run wherever it is needed."),
    wide(
      counted(
        "Unschedulable",
        ".nodes.agentUnschedulable",
        "Nodes where the agent is needed and cannot run.",
      ),
    ),
    wide(told("Held", "OwnersHeld", "Whether the deletion of an owner waits for its pods.")),
    wide(told("Waits", "PodsWait", "Whether pods wait for the agent.")),
    wide(told("Foreign", "ForeignMarks", "Whether nodes have marks that Berth did not set.")),
    age,
  ],
};

function remarks(footprint: NodeFootprint): readonly Remark[] {
  const { nodes: { pending = 0, unknown = 0 } = {}, holds = [] } = footprint.status ?? {};
  const placed = conditionOf(footprint, "AgentPlaced");
  const held = conditionOf(footprint, "OwnersHeld");
  return [
    ...(placed?.status === "False" ? [toRemark(placed)] : []),
    ...(held?.status === "Unknown" ? [toRemark(held)] : []),
    ...admissionRemarks(footprint, "PodsWait"),
    ...(unknown > 0 ? [{ text: `does not know of ${unknown} nodes whether they need the agent` }] : []),
    ...(pending > 0 ? [{ text: `labels ${pending} nodes next` }] : []),
    ...holds.map(({ name, since }) => ({ text: `holds the deletion of ${name} since ${since}` })),
  ];
}
