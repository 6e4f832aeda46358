/** Workload, WorkloadDeployment and Instance as the API server serves them. */
import { type CustomKind, conditions, observedGeneration } from "@berth/host";
import type { CustomResourceColumnDefinition as Column, Condition } from "@berth/kube";
import * as z from "zod";
import { annotations } from "../api/keys.ts";
import { instances, workloadDeployments, workloads } from "../api/workload.ts";
import { instanceSpec, instanceTemplate } from "./instance-spec.ts";
import {
  int32,
  listByName,
  locationReference,
  name,
  optionalText,
  replicaCounts,
  scaleSettings,
} from "./schema.ts";

/** Of placements, and of the cities of each. */
const MAX_PLACES = 256;

/** What tenants of a control plane may create in a project. */
const crdAnnotations = { [annotations.parentContexts]: "Project" };

/** Rules about an update hold in cells too, where no webhook guards objects. Only the API server can check them. */
const onUpdate = (
  ...rules: readonly { rule: string; message: string; fieldPath?: string }[]
): Readonly<Record<string, unknown>> => ({
  "x-kubernetes-validations": rules,
});
const immutable = onUpdate({ rule: "self == oldSelf", message: "must not change" });

const column = (title: string, field: string, type = "string", priority = 0): Column => ({
  name: title,
  type,
  jsonPath: field,
  ...(priority > 0 && { priority }),
});
const condition = (type: string, field: string): string =>
  `.status.conditions[?(@.type=="${type}")].${field}`;

const age = column("Age", ".metadata.creationTimestamp", "date");
const available = [
  column("Available", condition("Available", "status")),
  column("Reason", condition("Available", "reason")),
];
const replicas = [
  column("Replicas", ".status.replicas", "integer"),
  column("Ready", ".status.readyReplicas", "integer"),
  column("Desired", ".status.desiredReplicas", "integer"),
  column("Up-to-date", ".status.updatedReplicas", "integer"),
];

const placement = z.strictObject({
  name: name("Of the placement: a DNS label."),
  cityCodes: z.array(name("A code of a city.")).max(MAX_PLACES).describe("Cities, by their codes."),
  scaleSettings: scaleSettings.describe("How many Instances there are in each city."),
});

const workloadSpec = z
  .strictObject({
    template: instanceTemplate.describe("What the Instances are made from."),
    placements: listByName(placement, MAX_PLACES).min(1).describe("Where the Instances run, and how many."),
  })
  .describe("What should run.");

const workloadStatus = z
  .strictObject({
    conditions,
    deployments: int32().describe("WorkloadDeployments that exist."),
    ...replicaCounts,
    observedGeneration,
    placements: z
      .array(z.strictObject({ name: name("Of the placement."), conditions, ...replicaCounts }))
      .optional()
      .describe("The state of each placement."),
  })
  .describe("What was found. Written by the controller alone.");

export const workloadKind: CustomKind = {
  resource: workloads,
  singular: "workload",
  shortNames: [],
  categories: [],
  crdAnnotations,
  description: "A Workload runs a number of Instances of one template in each of its cities.",
  spec: workloadSpec,
  status: workloadStatus,
  columns: [age, ...available, column("Deployments", ".status.deployments", "integer"), ...replicas],
};

const deploymentSpec = z
  .strictObject({
    workloadRef: z
      .strictObject({ name: name("Of the Workload."), uid: name("Of the Workload.") })
      .meta(immutable)
      .describe("The Workload that it was made for."),
    placementName: name("The placement of the Workload.").meta(immutable),
    cityCode: name("The city of the Instances.").meta(immutable),
    template: instanceTemplate.describe("What the Instances are made from."),
    scaleSettings: scaleSettings.describe("How many Instances there are."),
  })
  .describe("What should run in one city.");

const deploymentStatus = z
  .strictObject({
    location: locationReference.optional().describe("The Location that serves the city, once one was found."),
    conditions,
    ...replicaCounts,
    observedGeneration,
    observedSourceGeneration: z
      .int()
      .min(0)
      .optional()
      .describe("The generation of the deployment in the project that the status is about."),
  })
  .describe("What was found. Written by the controller alone.");

export const workloadDeploymentKind: CustomKind = {
  resource: workloadDeployments,
  singular: "workloaddeployment",
  shortNames: [],
  categories: [],
  crdAnnotations,
  description: "A WorkloadDeployment runs the Instances of one placement of a Workload in one city.",
  spec: deploymentSpec,
  status: deploymentStatus,
  columns: [
    age,
    ...available,
    ...replicas,
    column("Location Namespace", ".status.location.namespace", "string", 1),
    column("Location Name", ".status.location.name", "string", 1),
  ],
};

const same = (field: string): string =>
  `has(self.${field}) == has(oldSelf.${field}) && (!has(self.${field}) || self.${field} == oldSelf.${field})`;

/**
 * The rules are about the whole spec: a rule of an optional field does not run when the field comes or goes. They are
 * written without `?.`, whose cost the API server cannot estimate.
 */
const instanceRules = onUpdate(
  {
    rule: `self.runtime == oldSelf.runtime && self.networkInterfaces == oldSelf.networkInterfaces && ${same("volumes")} && ${same("location")}`,
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
  shortNames: [],
  categories: [],
  crdAnnotations,
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

/** All kinds of `compute.datumapis.com`. */
export const fleetKinds: readonly CustomKind[] = [workloadKind, workloadDeploymentKind, instanceKind];
