/** `spec.wait` of a NodeFootprint: the container by which pods wait for the agent of their node. */

import { duration, withRules } from "@berth/host";
import * as z from "zod";

/** Amounts as Kubernetes writes them: `50m`, `32Mi`. What a container of a shell can have, and quotas ask for. */
export interface WaitAmounts {
  readonly cpu?: string | undefined;
  readonly memory?: string | undefined;
  readonly "ephemeral-storage"?: string | undefined;
}

export interface WaitResources {
  readonly requests?: WaitAmounts | undefined;
  readonly limits?: WaitAmounts | undefined;
}

/** Workloads wait for the agent of their node. */
export interface FootprintWait {
  /** `Webhook` puts the container into new pods. Default `None`. */
  readonly inject?: "None" | "Webhook" | undefined;
  readonly container?:
    | {
        readonly name?: string | undefined;
        /** With a digest the node need not trust a tag. */
        readonly image?: string | undefined;
        /** The workload starts all the same after it. Default `0s`: never. */
        readonly timeout?: string | undefined;
        /** Replaces the default as a whole; `{}` is none. */
        readonly resources?: WaitResources | undefined;
        /** `{}` is none. Default what Pod Security `restricted` asks for. */
        readonly securityContext?: Readonly<Record<string, string>> | undefined;
      }
    | undefined;
  /** Of the node's own address. */
  readonly port?: number | undefined;
}

/** Also of the plural name of a resource. */
export const DNS_LABEL: RegExp = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;
const AMOUNT = /^[0-9]{1,15}(?:\.[0-9]{1,9})?(?:[numkMGT]|[KMGT]i)?$/;

const amount = () => z.string().regex(AMOUNT, "must be an amount such as 50m or 32Mi").optional();

const amounts = () =>
  z.strictObject({
    cpu: amount().describe("Such as 50m."),
    memory: amount().describe("Such as 32Mi."),
    "ephemeral-storage": amount().describe("Such as 1Mi."),
  });

const resources: z.ZodType<WaitResources> = z.strictObject({
  requests: amounts().optional().describe("What the scheduler counts."),
  limits: amounts().optional().describe("What it may use at most."),
});

/** What an earlier release took is refused, and not taken for none. */
const securityContext = withRules<Readonly<Record<string, string>>>(z.record(z.string(), z.string()), [
  {
    cel: "size(self) == 0",
    holds: (given) => Object.keys(given).length === 0,
    message: "takes {} alone, which is none",
  },
]);

export const footprintWait: z.ZodType<FootprintWait> = z.strictObject({
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
      timeout: duration.optional().describe("The workload starts all the same after it. Default 0s: never."),
      resources: resources
        .optional()
        .describe("Default 50m and 32Mi, requests as limits. Replaces it as a whole; empty is none."),
      securityContext: securityContext
        .optional()
        .describe("Default what Pod Security restricted asks for, as user 65534. Only empty: none."),
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
