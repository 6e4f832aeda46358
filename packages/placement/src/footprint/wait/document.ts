/** `spec.wait` of a NodeFootprint: the container by which pods wait for the agent of their node. */

import { duration, withRules } from "@berth/host";
import * as z from "zod";

/** Pattern of container names, and of plural names of resources. */
export const DNS_LABEL: RegExp = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;
/** Refuses values that an earlier release accepted, instead of ignoring them. */
const nothing = withRules(z.record(z.string(), z.string()), [
  {
    cel: "size(self) == 0",
    holds: (given) => Object.keys(given).length === 0,
    message: "only {} is allowed, which means none",
  },
]);

export const footprintWait = z.strictObject({
  inject: z
    .enum(["None", "Webhook"], {
      error: ({ input }) =>
        input === "ServerSideApply" ? "ServerSideApply was removed: use Webhook" : undefined,
    })
    .optional()
    .describe("Webhook puts the container into new pods. Default None."),
  container: z
    .strictObject({
      name: z
        .string()
        .min(1)
        .max(63)
        .regex(DNS_LABEL, "must be the name of a container")
        .optional()
        .describe("Default wait-for-agent. A container of that name that is there already stays as it is."),
      image: z
        .string()
        .min(1)
        .max(512)
        .optional()
        .describe("With sh and nc, and date for a timeout. Default busybox:1.36."),
      timeout: duration
        .optional()
        .describe("After this time the workload starts all the same. Default 0s: never."),
      resources: nothing
        .optional()
        .describe(
          "Default 50m and 32Mi, as requests and limits. Only {} is allowed: it sets none, for namespaces with a LimitRange.",
        ),
      securityContext: nothing
        .optional()
        .describe(
          "Default what Pod Security restricted asks for, as user 65534. Only {} is allowed: it sets none.",
        ),
    })
    .optional()
    .describe("The container that waits."),
  port: z
    .int()
    .min(1)
    .max(65_535)
    .optional()
    .describe("Of the agent, at the address of the node. Required with inject."),
});
export type FootprintWait = z.infer<typeof footprintWait>;
