/** `WorkloadDeployment` as the API server serves it. */
import { type CustomKind, conditions, observedGeneration } from "@berth/host";
import * as z from "zod";
import { workloadDeployments } from "../api/workload.ts";
import { age, available, column, common, replicas } from "./columns.ts";
import { instanceTemplate } from "./instance-spec.ts";
import { locationReference, name, onUpdate, replicaCounts, scaleSettings, unheard } from "./schema.ts";

const immutable = onUpdate({ rule: "self == oldSelf", message: "must not change" });

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
    ...unheard,
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
  ...common,
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
