/** `Instance` as the API server serves it. */
import { type CustomKind, conditions } from "@berth/host";
import type { Condition } from "@berth/kube";
import * as z from "zod";
import { instances } from "../api/workload.ts";
import { age, column, common, condition } from "./columns.ts";
import { instanceSpec } from "./instance-spec.ts";
import { name, onUpdate, optionalText } from "./schema.ts";

const same = (field: string): string =>
  `has(self.${field}) == has(oldSelf.${field}) && (!has(self.${field}) || self.${field} == oldSelf.${field})`;

/**
 * The rules are about the whole spec: a rule of an optional field does not run when the field comes or goes. They are
 * written without `?.`, whose cost the API server cannot estimate.
 */
const instanceRules = onUpdate(
  {
    rule:
      "self.runtime == oldSelf.runtime && self.networkInterfaces == oldSelf.networkInterfaces && " +
      `${same("volumes")} && ${same("location")}`,
    message: "an Instance does not change: change the template of its Workload, which makes a new Instance",
  },
  {
    rule:
      "has(self.controller) == has(oldSelf.controller) && " +
      "(!has(self.controller) || self.controller.templateHash == oldSelf.controller.templateHash)",
    message: "must not change",
    fieldPath: ".controller.templateHash",
  },
  {
    rule:
      "!has(self.controller) || !has(self.controller.schedulingGates) || " +
      "self.controller.schedulingGates.all(gate, has(oldSelf.controller) && " +
      "has(oldSelf.controller.schedulingGates) && gate in oldSelf.controller.schedulingGates)",
    message: "gates are only removed, never added",
    fieldPath: ".controller.schedulingGates",
  },
);

const unknown = (type: string, reason: string, message: string): Condition => ({
  type,
  status: "Unknown",
  reason,
  message,
  lastTransitionTime: "1970-01-01T00:00:00Z",
});

const WAITING = "Waiting for controller";

const instanceStatus = z
  .strictObject({
    conditions,
    networkInterfaces: z
      .array(
        z.strictObject({
          assignments: z
            .strictObject({
              networkIP: optionalText("Its address in the Network."),
              externalIP: optionalText("Its address outside."),
            })
            .optional()
            .describe("What the interface was given."),
        }),
      )
      .optional()
      .describe("The interfaces, in the order of the spec."),
    controller: z
      .strictObject({ observedTemplateHash: name("Hash of the template that the provider has made.") })
      .optional()
      .describe("Written by the provider."),
  })
  .default({
    conditions: [
      unknown("Programmed", "Pending", WAITING),
      unknown("Available", "Pending", WAITING),
      unknown("Ready", "Pending", WAITING),
      unknown("QuotaGranted", "PendingEvaluation", "Waiting for quota evaluation"),
    ],
  })
  .describe("What was found. Written by controller and provider.");

export const instanceKind: CustomKind = {
  resource: instances,
  singular: "instance",
  ...common,
  description: "An Instance is one running copy of a template. Its WorkloadDeployment makes and deletes it.",
  spec: instanceSpec.meta(instanceRules).describe("What runs. It does not change, but for the gates."),
  status: instanceStatus,
  columns: [
    age,
    column("Ready", condition("Ready", "status")),
    column("Reason", condition("Ready", "reason")),
    column("Network IP", ".status.networkInterfaces[0].assignments.networkIP"),
    column("External IP", ".status.networkInterfaces[0].assignments.externalIP"),
    column("Message", condition("Ready", "message"), "string", 1),
    column("Quota", condition("QuotaGranted", "reason"), "string", 1),
  ],
};
