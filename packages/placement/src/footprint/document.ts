/** `NodeFootprint`, `berth.dev/v1alpha1`: an agent runs only on the nodes whose pods need it. */

import { duration, labelKey, labelValue, type Selector, selector, text, withRules } from "@berth/host";
import * as z from "zod";
import { annotationKeyProblem } from "../node/validate.ts";
import { DNS_LABEL, type FootprintWait, footprintWait } from "./wait/document.ts";

/** Presets fill in what a document does not give: `./presets.ts`. */
export const footprintPresets = [
  "agent-substrate/pr-134",
  "agent-substrate/owner-uid",
  "csi",
  "gpu",
  "log",
  "image-warmer",
] as const;
export type FootprintPreset = (typeof footprintPresets)[number];

/** Pods that need the agent. All that is given has to hold; several workloads are alternatives. */
export interface FootprintWorkload {
  /** Default every pod. What the API server can select is selected there. */
  readonly podSelector?: Selector | undefined;
  /** Default every namespace. */
  readonly namespaceSelector?: Selector | undefined;
  /** Requests at least one of these resources. */
  readonly requests?: readonly string[] | undefined;
  /** Mounts a volume of at least one of these CSI drivers: inline, ephemeral, or through its claim. */
  readonly csiDrivers?: readonly string[] | undefined;
  /** Pods of these phases do not count. Default `Succeeded` and `Failed`. */
  readonly ignorePhases?: readonly ("Pending" | "Running" | "Succeeded" | "Failed" | "Unknown")[] | undefined;
  /** A pod that ends counts until it is gone, or no longer. One that is finished besides never does. Default `Hold`. */
  readonly terminating?: "Hold" | "Release" | undefined;
}

/** What counts as one owner of the agent on a node: a claim for each. */
export interface FootprintGroup {
  /** Default `None`: the label alone says that there is somebody. */
  readonly by?: "PodLabel" | "OwnerUID" | "Namespace" | "Pod" | "None" | undefined;
  /** Of the pod, for `PodLabel`. */
  readonly label?: string | undefined;
  /** For `OwnerUID`: the pod's controllers are followed up to this kind. For `PodLabel`: whose uid the value has to be. */
  readonly owner?: { readonly group: string; readonly kind: string } | undefined;
  /** With `PodLabel`: the value counts only as the uid of an owner that the pod really has. Default true when an owner is given. */
  readonly verifyOwner?: boolean | undefined;
}

export interface FootprintNode {
  /** The key is required without a preset. */
  readonly label?: { readonly key?: string | undefined; readonly value?: string | undefined } | undefined;
  /** Annotations `<prefix><group>`, one for each group on the node. Default none. The prefix is required without a preset. */
  readonly claims?:
    | { readonly annotationPrefix?: string | undefined; readonly value?: string | undefined }
    | undefined;
  /** Marks that nobody needs and Berth has not set: removed, left, or told of. Default `Reclaim`. */
  readonly foreign?: "Reclaim" | "Preserve" | "Report" | undefined;
  /** Nodes that are never touched. Default none. */
  readonly excludeSelector?: Selector | undefined;
}

/** An owner's deletion waits until its pods are gone. */
export interface FootprintHold {
  /** Required where no preset says it. */
  readonly resource?:
    | { readonly group: string; readonly version: string; readonly resource: string }
    | undefined;
  /** Required where no preset says it. */
  readonly finalizer?: string | undefined;
  /** `DeleteOwned`: what the owner owns of these is deleted once. `Wait`: somebody else does that. Default `DeleteOwned`. */
  readonly onDelete?: "DeleteOwned" | "Wait" | undefined;
  readonly ownedResources?:
    | readonly { readonly group: string; readonly version: string; readonly resource: string }[]
    | undefined;
  /** Then the owner is let go all the same. Default `0s`: never. */
  readonly timeout?: string | undefined;
}

export interface FootprintAgent {
  readonly daemonSet?: { readonly namespace: string; readonly name: string } | undefined;
  /** `Verify` reports what keeps it from the nodes; `Manage` also sets its node selector, once every needed node is labelled. Default `Verify`. */
  readonly nodeSelector?: "Off" | "Verify" | "Manage" | undefined;
  /** `Eager`: it also runs on nodes that are not known to be idle, so that autoscalers count it. Default `Lazy`. */
  readonly placement?: "Lazy" | "Eager" | undefined;
}

export interface NodeFootprintSpec {
  readonly preset?: FootprintPreset | undefined;
  readonly workloads?: readonly FootprintWorkload[] | undefined;
  readonly group?: FootprintGroup | undefined;
  readonly node?: FootprintNode | undefined;
  /** How long a node keeps its marks after the last pod of a group. Default `0s`; a restart of Berth begins anew. */
  readonly release?: { readonly delay?: string | undefined } | undefined;
  readonly hold?: FootprintHold | undefined;
  readonly wait?: FootprintWait | undefined;
  readonly agent?: FootprintAgent | undefined;
}

const MAX_ITEMS = 16;
const NAME = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/;
const GROUP = /^(?:[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*)?$/;
const VERSION = /^v[0-9]+(?:(?:alpha|beta)[0-9]+)?$/;
/** A claim's key is a prefix and a group: a uid has 36 of the 63 characters. */
const MAX_PREFIX_NAME = 63 - 36;

const name = (): z.ZodString => z.string().min(1).max(253).regex(NAME, "must be the name of an object");
const group = (): z.ZodString => z.string().max(253).regex(GROUP, 'must be an API group, "" for the core');
const plural = (): z.ZodString =>
  z.string().min(1).max(63).regex(DNS_LABEL, "must be the plural name of a resource");
const groupResource = () =>
  z.strictObject({
    group: group().describe('API group, "" for the core.'),
    version: z.string().max(63).regex(VERSION, "must be a version such as v1").describe("Such as v1."),
    resource: plural().describe("Its plural name, such as deployments."),
  });

function claimPrefix(): z.ZodType<string> {
  return text({ min: 1, max: 281 }).superRefine((prefix, context) => {
    const problem = annotationKeyProblem(`${prefix}x`);
    if (problem !== undefined) context.addIssue({ code: "custom", message: problem });
    else if (prefix.length - (prefix.indexOf("/") + 1) > MAX_PREFIX_NAME)
      context.addIssue({
        code: "custom",
        message: `leaves no room for a uid: at most ${MAX_PREFIX_NAME} characters after the domain`,
      });
  });
}

const workload: z.ZodType<FootprintWorkload> = z.strictObject({
  podSelector: selector
    .optional()
    .describe("Which pods. The API server sends no others, where labels can say it."),
  namespaceSelector: selector.optional().describe("Namespaces by their labels. Default every one."),
  requests: z
    .array(labelKey)
    .max(MAX_ITEMS)
    .readonly()
    .optional()
    .describe("Pods that request at least one of these resources."),
  csiDrivers: z
    .array(name())
    .max(MAX_ITEMS)
    .readonly()
    .optional()
    .describe("Pods with a volume of at least one of these drivers, inline or through their claims."),
  ignorePhases: z
    .array(z.enum(["Pending", "Running", "Succeeded", "Failed", "Unknown"]))
    .max(5)
    .readonly()
    .optional()
    .describe("Pods of these phases do not count. Default Succeeded and Failed."),
  terminating: z
    .enum(["Hold", "Release"])
    .optional()
    .describe("Whether a pod that ends counts until it is gone. Default Hold."),
});

const groupSchema: z.ZodType<FootprintGroup> = z.strictObject({
  by: z
    .enum(["PodLabel", "OwnerUID", "Namespace", "Pod", "None"])
    .optional()
    .describe("What counts as one owner: a claim on the node for each. Default None."),
  label: labelKey.optional().describe("Of the pod, for PodLabel."),
  owner: z
    .strictObject({
      group: group().describe('API group, "" for the core.'),
      kind: z.string().min(1).max(63).describe("Such as Deployment."),
    })
    .optional()
    .describe("The kind up to which controllers of a pod are followed."),
  verifyOwner: z
    .boolean()
    .optional()
    .describe(
      "A label counts only as the uid of an owner that the pod really has. Default true with an owner.",
    ),
});

const node: z.ZodType<FootprintNode> = z.strictObject({
  label: z
    .strictObject({
      key: labelKey
        .optional()
        .describe("Required without a preset, else footprint.berth.dev/ and the name of the document."),
      value: labelValue.optional().describe('Default "true".'),
    })
    .optional()
    .describe("What the node selector of the agent's DaemonSet asks for."),
  claims: z
    .strictObject({
      annotationPrefix: claimPrefix()
        .optional()
        .describe("A group is put behind it. Required without a preset."),
      value: text({ max: 253 }).optional().describe("Default the empty text."),
    })
    .optional()
    .describe("Annotations that say which groups need the agent there. Default none."),
  foreign: z
    .enum(["Reclaim", "Preserve", "Report"])
    .optional()
    .describe(
      "What becomes of such marks where nobody needs the agent and Berth has not set them. Default Reclaim.",
    ),
  excludeSelector: selector.optional().describe("Nodes that are never touched. Default none."),
});

/**
 * Schema of `spec`. It has no defaults of its own: what the API server filled in could not be told from what was given,
 * and a preset would not count.
 */
export const nodeFootprintSpec: z.ZodType<NodeFootprintSpec> = withRules<NodeFootprintSpec>(
  z.strictObject({
    preset: z.enum(footprintPresets).optional().describe("Fills in what is not given here."),
    workloads: z
      .array(workload)
      .min(1)
      .max(MAX_ITEMS)
      .readonly()
      .optional()
      .describe("Pods that need the agent; each entry is enough."),
    group: groupSchema.optional().describe("What belongs together. Default all pods that need the agent."),
    node: node.optional().describe("What stands on nodes that need the agent."),
    release: z
      .strictObject({
        delay: duration
          .optional()
          .describe("How long a node keeps its marks after the last pod. Default 0s."),
      })
      .optional()
      .describe("When marks go."),
    hold: z
      .strictObject({
        resource: groupResource()
          .optional()
          .describe("The kind of the owners. Required where no preset says it."),
        finalizer: labelKey
          .optional()
          .describe("Keeps an owner until its pods are gone. Required where no preset says it."),
        onDelete: z
          .enum(["DeleteOwned", "Wait"])
          .optional()
          .describe(
            "Whether Berth deletes what the owner owns, as the garbage collector waits for the owner. Default DeleteOwned.",
          ),
        ownedResources: z
          .array(groupResource())
          .max(MAX_ITEMS)
          .readonly()
          .optional()
          .describe("What DeleteOwned deletes, and what an owner is kept for."),
        timeout: duration.optional().describe("Then it is let go all the same. Default 0s: never."),
      })
      .optional()
      .describe("The deletion of an owner waits for its pods. Default it does not."),
    wait: footprintWait.optional().describe("Workloads start once the agent of their node listens."),
    agent: z
      .strictObject({
        daemonSet: z
          .strictObject({
            namespace: name().describe("Its namespace."),
            name: name().describe("Its name."),
          })
          .optional()
          .describe("The agent itself. Default none is known, and nothing of it is checked."),
        nodeSelector: z
          .enum(["Off", "Verify", "Manage"])
          .optional()
          .describe(
            "Verify reports what keeps the agent from a node. Manage also sets its node selector, once every node that needs it is labelled. Default Verify.",
          ),
        placement: z
          .enum(["Lazy", "Eager"])
          .optional()
          .describe(
            "Eager: also on nodes that are not known to be idle, so that autoscalers count it. Default Lazy.",
          ),
      })
      .optional()
      .describe("The DaemonSet that follows."),
  }),
  [
    {
      cel: "has(self.preset) || (has(self.workloads) && has(self.node) && has(self.node.label) && has(self.node.label.key))",
      holds: ({ preset, workloads, node: marks }) =>
        preset !== undefined || (workloads !== undefined && marks?.label?.key !== undefined),
      message: "needs workloads and node.label.key, or a preset",
    },
    {
      cel: "has(self.preset) || !has(self.node) || !has(self.node.claims) || has(self.node.claims.annotationPrefix)",
      holds: ({ preset, node: marks }) =>
        preset !== undefined || marks?.claims === undefined || marks.claims.annotationPrefix !== undefined,
      message: "claims need an annotationPrefix, or a preset",
      field: "node",
    },
    {
      cel: 'has(self.preset) || !has(self.group) || !has(self.group.by) || self.group.by != "PodLabel" || has(self.group.label)',
      holds: ({ preset, group: given }) =>
        preset !== undefined || given?.by !== "PodLabel" || given.label !== undefined,
      message: "PodLabel needs a label",
      field: "group",
    },
    {
      cel: 'has(self.preset) || !has(self.group) || !has(self.group.by) || self.group.by != "OwnerUID" || has(self.group.owner)',
      holds: ({ preset, group: given }) =>
        preset !== undefined || given?.by !== "OwnerUID" || given.owner !== undefined,
      message: "OwnerUID needs an owner",
      field: "group",
    },
    {
      cel: "has(self.preset) || !has(self.hold) || (has(self.hold.resource) && has(self.hold.finalizer))",
      holds: ({ preset, hold }) =>
        preset !== undefined ||
        hold === undefined ||
        (hold.resource !== undefined && hold.finalizer !== undefined),
      message: "needs resource and finalizer, or a preset that has them",
      field: "hold",
    },
  ],
).describe("Which pods need the agent, and what their nodes carry for it.");

/** What Berth reports about a footprint: counts and first names, never a list of all nodes. */
export interface NodeFootprintStatus {
  readonly observedGeneration?: number;
  readonly nodes?: {
    /** With the label. */
    readonly labelled?: number;
    /** Needed, and not labelled yet. Not said while a node is unknown. */
    readonly pending?: number;
    /** Of which it is not known whether they need the agent. */
    readonly unknown?: number;
    /** With a ready pod of the agent. */
    readonly agentReady?: number;
    /** Needed, where the DaemonSet cannot run. */
    readonly agentUnschedulable?: number;
  };
  readonly claims?: number;
  /** Owners whose deletion waits, at most 5. */
  readonly holds?: readonly {
    /** `namespace/name`. */
    readonly name: string;
    readonly uid: string;
    readonly since: string;
    readonly nodes: readonly string[];
    readonly pods: readonly string[];
  }[];
}
