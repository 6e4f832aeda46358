/** Schemas for the status fields that all kinds share. */
import type { Condition } from "@berth/kube";
import * as z from "zod";

/** One of `status.conditions`, with the limits of `metav1.Condition` (apimachinery `pkg/apis/meta/v1/types.go`). */
const condition: z.ZodType<Condition> = z
  .strictObject({
    type: z
      .string()
      .max(316)
      .regex(
        /^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$/,
      )
      .describe("What the condition is about, unique within the object."),
    status: z.enum(["True", "False", "Unknown"]).describe("Whether it holds."),
    observedGeneration: z
      .int()
      .min(0)
      .exactOptional()
      .describe("The metadata.generation that the condition was decided for."),
    lastTransitionTime: z
      .string()
      .meta({ format: "date-time" })
      .describe("When status last changed from one value to another."),
    reason: z
      .string()
      .min(1)
      .max(1024)
      .regex(/^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/)
      .describe("Why, as one word for programs."),
    message: z.string().max(32_768).describe("Why, in a sentence for people."),
  })
  .describe("One aspect of the state of the object.");

/** `status.conditions`: a list with unique types. */
export const conditions: z.ZodOptional<z.ZodReadonly<z.ZodArray<z.ZodType<Condition>>>> = z
  .array(condition)
  .readonly()
  .optional()
  .describe("What is true of it now.")
  .meta({
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
  });

export const observedGeneration: z.ZodOptional<z.ZodInt> = z
  .int()
  .min(0)
  .optional()
  .describe("The metadata.generation that the rest of the status is about.");
