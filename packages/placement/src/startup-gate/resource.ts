/** `StartupGate` as the API server serves it: resource, status and how kubectl shows it. */

import { counted, type Remark, type ServedKind } from "@berth/host";
import type { Resource } from "@berth/kube";
import * as z from "zod";
import {
  admissionRemarks,
  age,
  column,
  condition,
  count,
  names,
  type Served,
  servedResource,
  statusWith,
  wide,
} from "../api/served.ts";
import { MAX_FIRST_NODES } from "../node/first-names.ts";
import { type StartupGateSpec, startupGateSpec } from "./document.ts";

export type StartupGate = Served<StartupGateStatus>;

export const startupGates: Resource<StartupGate> = servedResource("startupgates", "StartupGate");

const FIRST = { most: MAX_FIRST_NODES, length: 253 };

const status = statusWith({
  selectedNodes: count("Nodes that the gate selects."),
  heldNodes: count("Nodes that it holds now."),
  timedOutNodes: count("Held nodes that took longer than a timeout."),
  firstNodes: names(
    "The first held nodes by name, in a dry run those that would be held; never all of them.",
    FIRST,
  ),
  wouldHoldNodes: count("Nodes that the gate would hold. Only in a dry run."),
  wouldReleaseNodes: count("Nodes with the taint that the gate would release. Only in a dry run."),
});
export type StartupGateStatus = z.infer<typeof status>;

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
  shown: { remarks },
  columns: [
    column("Taint", "string", ".spec.taint.key", "The taint that holds a node."),
    column("Held", "integer", ".status.heldNodes", "Nodes held now."),
    column("Timed-Out", "integer", ".status.timedOutNodes", "Held nodes that took longer than a timeout."),
    column("Ready", "string", condition("Ready"), "Whether the gate is in force."),
    column(
      "Admission",
      "string",
      condition("Admission", "reason"),
      "What puts the taint on nodes when they are created.",
    ),
    wide(column("Mode", "string", ".spec.mode", "Once or Continuous.")),
    wide(column("Selected", "integer", ".status.selectedNodes", "Nodes that the gate selects.")),
    wide(column("Dry-Run", "boolean", ".spec.dryRun", "Whether the gate only reports.")),
    age,
  ],
};

function remarks(gate: StartupGate): readonly Remark[] {
  const { heldNodes: held = 0, timedOutNodes: late = 0, firstNodes: names = [] } = gate.status ?? {};
  const text = `holds ${counted(held, "node")}${late > 0 ? `, ${late} of them longer than a timeout` : ""}`;
  return [
    ...(held > 0 ? [{ text, names, needsPerson: late > 0 }] : []),
    ...admissionRemarks(gate, "Admission"),
    ...admissionRemarks(gate, "DirectBinding"),
  ];
}
