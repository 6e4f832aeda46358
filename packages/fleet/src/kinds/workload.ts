/** `Workload` as the API server serves it. */
import { type CustomKind, conditions, observedGeneration } from "@berth/host";
import * as z from "zod";
import { workloads } from "../api/workload.ts";
import { age, available, column, common, replicas } from "./columns.ts";
import { instanceTemplate } from "./instance-spec.ts";
import { int32, listByName, name, replicaCounts, scaleSettings, unheard } from "./schema.ts";

/** Of placements, and of the cities of each. */
const MAX_PLACES = 256;

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
    ...unheard,
    observedGeneration,
    placements: z
      .array(z.strictObject({ name: name("Of the placement."), conditions, ...replicaCounts, ...unheard }))
      .optional()
      .describe("The state of each placement."),
  })
  .describe("What was found. Written by the controller alone.");

export const workloadKind: CustomKind = {
  resource: workloads,
  singular: "workload",
  ...common,
  description: "A Workload runs a number of Instances of one template in each of its cities.",
  spec: workloadSpec,
  status: workloadStatus,
  columns: [age, ...available, column("Deployments", ".status.deployments", "integer"), ...replicas],
};
