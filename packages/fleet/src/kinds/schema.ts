/** Parts that the schemas of several kinds share. Limits are ours: they keep an object within what etcd stores. */
import { quantity, text } from "@berth/host";
import * as z from "zod";

/** Admission says which names are valid. */
export const name = (what: string): z.ZodType => text({ max: 253 }).describe(what);

export const optionalText = (what: string): z.ZodType => z.string().optional().describe(what);

export const int32 = (): z.ZodInt32 => z.int32().meta({ format: "int32" });

/** Rules about an update hold where no webhook guards objects. Only the API server can check them. */
export const onUpdate = (
  ...rules: readonly { readonly rule: string; readonly message: string; readonly fieldPath?: string }[]
): Readonly<Record<string, unknown>> => ({ "x-kubernetes-validations": rules });

/** A list that the API server keeps unique by a field, and that appliers may share. */
export const listByName = (item: z.ZodType, max: number): z.ZodArray =>
  z
    .array(item)
    .max(max)
    .meta({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"] });

/** The fields of an embedded ObjectMeta that the API server keeps. */
export const embeddedMetadata: z.ZodObject = z.strictObject({
  name: optionalText("Not used."),
  namespace: optionalText("Not used."),
  labels: z.record(z.string(), z.string()).optional().describe("Labels of what is made from it."),
  annotations: z.record(z.string(), z.string()).optional().describe("Annotations of what is made from it."),
  finalizers: z.array(z.string()).optional().describe("Not used."),
});

export const quantities = (what: string): z.ZodType =>
  z.record(z.string(), quantity).optional().describe(`${what}, by resource.`);

export const locationReference: z.ZodObject = z.strictObject({
  name: name("Of the Location."),
  namespace: name("Of the Location."),
});

const metric = z.strictObject({
  resource: z
    .strictObject({
      name: name("Of the resource: cpu."),
      target: z
        .strictObject({
          value: quantity.optional().describe("Wanted sum."),
          averageValue: quantity.optional().describe("Wanted mean of the Instances."),
          averageUtilization: int32().optional().describe("Wanted mean in percent of what is requested."),
        })
        .describe("The wanted value, in one of three forms."),
    })
    .optional()
    .describe("A resource that the Instances use."),
});

/** The API server takes `minReplicas: 0`. Admission refuses it, and says why. */
export const scaleSettings: z.ZodObject = z.strictObject({
  minReplicas: int32().min(0).max(1000).describe("Instances in each city."),
  maxReplicas: int32().optional().describe("Kept and checked. Nothing acts on it."),
  metrics: z.array(metric).max(16).optional().describe("Kept and checked. Nothing acts on them."),
  instanceManagementPolicy: z
    .enum(["OrderedReady"])
    .default("OrderedReady")
    .describe("Instances are made and replaced one after the other."),
});

/** Required counters of Instances, as the original has them. */
export const replicaCounts: Readonly<Record<string, z.ZodType>> = {
  replicas: int32().describe("Instances that exist."),
  currentReplicas: int32().describe("Instances of the newest template that are programmed."),
  updatedReplicas: int32().optional().describe("Instances of the newest template, ready or not."),
  desiredReplicas: int32().describe("Instances that there should be."),
  readyReplicas: int32().describe("Instances that are ready."),
};

/** How old counters are that nothing confirms now. */
export const unheard: Readonly<Record<string, z.ZodType>> = {
  unheard: int32().min(0).optional().describe("Those of readyReplicas that nothing confirms now."),
  since: z
    .string()
    .optional()
    .meta({ format: "date-time" })
    .describe("Until when the unheard ones were confirmed."),
};
