/** `WorkerPool`, `ate.dev/v1alpha1`, as agent-substrate defines it: the user's spec and the reported status. */

import { conditions, QUANTITY } from "@berth/host";
import type { Condition, NodeAffinity, ResourceRequirements, Toleration } from "@berth/kube";
import * as z from "zod";

export const sandboxClasses = ["gvisor", "microvm"] as const;
export type SandboxClass = (typeof sandboxClasses)[number];

/** Placement and resources of the workers. Berth removes absent or empty fields from the Deployment. */
export interface WorkerPoolTemplate {
  readonly nodeSelector?: Readonly<Record<string, string>>;
  readonly tolerations?: readonly Toleration[];
  readonly priorityClassName?: string;
  readonly nodeAffinity?: NodeAffinity;
  readonly resources?: ResourceRequirements;
}

export interface WorkerPoolSpec {
  readonly replicas: number;
  readonly ateomImage: string;
  /** The API server fills in `gvisor`. */
  readonly sandboxClass?: SandboxClass;
  /** Other components of agent-substrate read it; Berth does not use it. */
  readonly sandboxConfigName?: string;
  readonly template?: WorkerPoolTemplate;
}

export interface WorkerPoolStatus {
  /** Pods of the Deployment, ready or not. */
  readonly replicas?: number;
  /** Berth sets `Allowed`, only while it is `False`. The original's CRD has no conditions and drops it. */
  readonly conditions?: readonly Condition[];
}

const MAX_TOLERATIONS = 16;

const optionalText = (): z.ZodType => z.string().optional();
const int32 = (): z.ZodInt => z.int().meta({ format: "int32" });

/** The schema of a CRD has no union; this expresses the same there. */
const quantity = (): z.ZodType =>
  z
    .any()
    .refine((value) => typeof value === "number" || typeof value === "string", "must be a quantity")
    .meta({ "x-kubernetes-int-or-string": true, pattern: QUANTITY });

const quantities = (what: string): z.ZodType =>
  z.record(z.string(), quantity()).optional().describe(`${what}, by resource.`);

const requirement = z.object({
  key: z.string().describe("Of a label, or a field such as metadata.name."),
  operator: z.string().describe("In, NotIn, Exists, DoesNotExist, Gt or Lt."),
  values: z.array(z.string()).optional().describe("What it is compared with."),
});

const term = z
  .object({
    matchExpressions: z.array(requirement).optional().describe("Conditions on labels of the node."),
    matchFields: z.array(requirement).optional().describe("Conditions on fields of the node."),
  })
  .meta({ "x-kubernetes-map-type": "atomic" });

const nodeAffinity = z
  .object({
    requiredDuringSchedulingIgnoredDuringExecution: z
      .object({ nodeSelectorTerms: z.array(term).describe("One of them has to hold.") })
      .meta({ "x-kubernetes-map-type": "atomic" })
      .optional()
      .describe("A node has to meet one of the terms."),
    preferredDuringSchedulingIgnoredDuringExecution: z
      .array(
        z.object({
          preference: term.describe("What a node may meet."),
          weight: int32().describe("From 1 to 100."),
        }),
      )
      .optional()
      .describe("Nodes that meet more of these, by weight, come first."),
  })
  .optional()
  .describe("As `affinity.nodeAffinity` of a pod.");

const toleration = z.object({
  key: optionalText().describe("Of the taint. Default every one."),
  operator: optionalText().describe("Equal or Exists. Default Equal."),
  value: optionalText().describe("Of the taint, with Equal."),
  effect: optionalText().describe("Of the taint. Default every one."),
  tolerationSeconds: z
    .int()
    .optional()
    .meta({ format: "int64" })
    .describe("With NoExecute, after which the pod is evicted. Default never."),
});

const resources = z
  .object({
    requests: quantities("What is set aside for each worker"),
    limits: quantities("What each worker may use at most"),
    claims: z
      .array(
        z.object({
          name: z.string().describe("As in the pod."),
          request: optionalText().describe("One of the claim. Default all."),
        }),
      )
      .optional()
      .meta({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"] })
      .describe("Resource claims of the pod that the worker uses."),
  })
  .optional()
  .describe("As `resources` of a container.");

const template = z
  .object({
    nodeSelector: z.record(z.string(), z.string()).optional().describe("Labels that a node has to have."),
    tolerations: z.array(toleration).max(MAX_TOLERATIONS).optional().describe("As `tolerations` of a pod."),
    priorityClassName: optionalText().describe("Default: that of the cluster."),
    nodeAffinity,
    resources,
  })
  .optional()
  .describe("Where the workers run, and what they are given.");

/**
 * Accepts what the original accepts, and is no stricter: it leaves the fields of later versions alone. It checks core
 * types as deeply as the API server does in a custom resource; the Deployment refuses the rest.
 */
export const workerPoolSpec: z.ZodType = z
  .object({
    replicas: int32().min(0).describe("How many workers there are."),
    ateomImage: z.string().min(1).describe("Container image of a worker."),
    sandboxClass: z
      .enum(sandboxClasses)
      .default("gvisor")
      .describe("What workers isolate with; microvm needs nodes of that class and their /dev/kvm."),
    sandboxConfigName: optionalText().describe("The SandboxConfig of the pool."),
    template,
  })
  .describe("What the pool should be.");

export const workerPoolStatus: z.ZodType = z
  .object({ replicas: int32().min(0).optional().describe("Pods of the pool, ready or not."), conditions })
  .describe("What was found. Written by the controller alone.");
