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

/** As in a pod. What would give the container more than others have is left out. */
export interface WaitSecurityContext {
  readonly allowPrivilegeEscalation?: boolean | undefined;
  readonly capabilities?: { readonly drop?: readonly string[] | undefined } | undefined;
  readonly readOnlyRootFilesystem?: boolean | undefined;
  readonly runAsGroup?: number | undefined;
  readonly runAsNonRoot?: boolean | undefined;
  readonly runAsUser?: number | undefined;
  readonly seccompProfile?:
    | {
        readonly type: "RuntimeDefault" | "Localhost" | "Unconfined";
        readonly localhostProfile?: string | undefined;
      }
    | undefined;
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
        /** Replaces the default as a whole; `{}` is none. */
        readonly securityContext?: WaitSecurityContext | undefined;
      }
    | undefined;
  /** Of the node's own address. */
  readonly port?: number | undefined;
}

/** Also of the plural name of a resource. */
export const DNS_LABEL: RegExp = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;
const AMOUNT = /^[0-9]{1,15}(?:\.[0-9]{1,9})?(?:[numkMGT]|[KMGT]i)?$/;
const CAPABILITY = /^[A-Z][A-Z_]{0,62}$/;
/** As the API server wants it: below the folder of profiles of the kubelet. */
const PROFILE = /^(?:[A-Za-z0-9_-][A-Za-z0-9._-]*\/)*[A-Za-z0-9_-][A-Za-z0-9._-]*$/;
/** The API server takes no other (`IsValidUserID`). */
const MAX_ID = 2_147_483_647;

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

const seccompProfile = withRules<NonNullable<WaitSecurityContext["seccompProfile"]>>(
  z.strictObject({
    type: z.enum(["RuntimeDefault", "Localhost", "Unconfined"]).describe("Whose profile."),
    localhostProfile: z
      .string()
      .max(253)
      .regex(PROFILE, "must be a path below the profiles of the node")
      .optional()
      .describe("File of the node, for Localhost."),
  }),
  [
    {
      cel: '(self.type == "Localhost") == has(self.localhostProfile)',
      holds: ({ type, localhostProfile }) => (type === "Localhost") === (localhostProfile !== undefined),
      message: "Localhost needs a profile, the others take none",
      field: "localhostProfile",
    },
  ],
);

const securityContext: z.ZodType<WaitSecurityContext> = withRules<WaitSecurityContext>(
  z.strictObject({
    allowPrivilegeEscalation: z.boolean().optional().describe("Whether it may gain privileges."),
    capabilities: z
      .strictObject({
        drop: z
          .array(z.string().regex(CAPABILITY, "must be a capability such as ALL"))
          .max(64)
          .readonly()
          .optional()
          .describe("Such as ALL."),
      })
      .optional()
      .describe("Capabilities that it gives up."),
    readOnlyRootFilesystem: z.boolean().optional().describe("Whether it can write nothing."),
    runAsGroup: z.int().min(0).max(MAX_ID).optional().describe("Group that it runs as."),
    runAsNonRoot: z.boolean().optional().describe("Whether the kubelet refuses to run it as root."),
    runAsUser: z.int().min(0).max(MAX_ID).optional().describe("User that it runs as."),
    seccompProfile: seccompProfile.optional().describe("Which system calls it may make."),
  }),
  [
    {
      cel: "!has(self.runAsNonRoot) || !self.runAsNonRoot || !has(self.runAsUser) || self.runAsUser != 0",
      holds: ({ runAsNonRoot, runAsUser }) => runAsNonRoot !== true || runAsUser !== 0,
      message: "0 is root, which runAsNonRoot forbids",
      field: "runAsUser",
    },
  ],
);

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
        .describe(
          "Default what Pod Security restricted asks for, as user 65534. Replaces it as a whole; empty is none.",
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
