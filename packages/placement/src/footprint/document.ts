/** `NodeFootprint`, `berth.dev/v1alpha1`: an agent runs only on the nodes whose pods need it. */

import { duration, labelKey, labelValue, selector, text, withRules } from "@berth/host";
import * as z from "zod";
import { annotationKeyProblem } from "../node/validate.ts";
import { DNS_LABEL, footprintWait } from "./wait/document.ts";

export const footprintPresets = [
  "agent-substrate/pr-134",
  "agent-substrate/owner-uid",
  "csi",
  "gpu",
  "log",
  "image-warmer",
] as const;
export type FootprintPreset = (typeof footprintPresets)[number];

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

const list = <T extends z.ZodType>(of: T, most = MAX_ITEMS) => z.array(of).max(most).readonly().optional();

/** Pods that need the agent. A pod must match every given field; several workloads are alternatives. */
const workload = z.strictObject({
  podSelector: selector
    .optional()
    .describe(
      "Selects pods by their labels. Where labels decide alone, the API server sends only these pods.",
    ),
  namespaceSelector: selector.optional().describe("Selects namespaces by their labels. Default every one."),
  requests: list(labelKey).describe("Pods that request at least one of these resources."),
  csiDrivers: list(name()).describe(
    "Pods with a volume of at least one of these drivers, inline or through their claims.",
  ),
  ignorePhases: list(z.enum(["Pending", "Running", "Succeeded", "Failed", "Unknown"]), 5).describe(
    "Pods of these phases do not count. Default Succeeded and Failed.",
  ),
  terminating: z
    .enum(["Hold", "Release"])
    .optional()
    .describe("Whether a terminating pod counts until it is gone. Default Hold."),
});

const groupSchema = z.strictObject({
  by: z
    .enum(["PodLabel", "OwnerUID", "Namespace", "Pod", "None"])
    .optional()
    .describe("How pods form groups: each group has a claim on the node. Default None."),
  label: labelKey.optional().describe("Of the pod, for PodLabel."),
  owner: z
    .strictObject({
      group: group().describe('API group, "" for the core.'),
      kind: z.string().min(1).max(63).describe("Such as Deployment."),
    })
    .optional()
    .describe("Berth follows the controllers of a pod up to this kind."),
  verifyOwner: z
    .boolean()
    .optional()
    .describe(
      "A label counts only if it is the uid of an owner that the pod really has. Default true with an owner.",
    ),
});

const node = z.strictObject({
  label: z
    .strictObject({
      key: labelKey
        .optional()
        .describe("Required without a preset, else footprint.berth.dev/ and the name of the document."),
      value: labelValue.optional().describe('Default "true".'),
    })
    .optional()
    .describe("The value that the node selector of the agent's DaemonSet asks for."),
  claims: z
    .strictObject({
      annotationPrefix: claimPrefix()
        .optional()
        .describe(
          "The name of a group follows it. Default footprint.berth.dev/, the name of the document and _.",
        ),
      value: text({ max: 253 }).optional().describe("Default the empty text."),
    })
    .optional()
    .describe("Annotations that say which groups need the agent there. Default none."),
  foreign: z
    .enum(["Reclaim", "Preserve", "Report"])
    .optional()
    .describe(
      "What Berth does with such marks that it did not set, on nodes where no pod needs the agent. Default Reclaim.",
    ),
  excludeSelector: selector.optional().describe("Nodes that Berth never changes. Default none."),
});

/**
 * Schema of `spec`. It sets no defaults: Berth could not distinguish a default of the API server from a value of the
 * user, so a preset would have no effect.
 */
export const nodeFootprintSpec = withRules(
  z.strictObject({
    preset: z.enum(footprintPresets).optional().describe("Sets the fields that are not given here."),
    workloads: z
      .array(workload)
      .min(1)
      .max(MAX_ITEMS)
      .readonly()
      .optional()
      .describe("Pods that need the agent. One entry that matches is enough."),
    group: groupSchema.optional().describe("Which pods form a group. Default: all pods that need the agent."),
    node: node.optional().describe("The marks of nodes that need the agent."),
    release: z
      .strictObject({
        delay: duration
          .optional()
          .describe("How long a node keeps its marks after the last pod. Default 0s."),
      })
      .optional()
      .describe("When Berth removes the marks."),
    hold: z
      .strictObject({
        resource: groupResource()
          .optional()
          .describe("The kind of the owners. Required unless the preset sets it."),
        finalizer: labelKey
          .optional()
          .describe(
            "The finalizer that keeps an owner until its pods are gone. Required unless the preset sets it.",
          ),
        onDelete: z
          .enum(["DeleteOwned", "Wait"])
          .optional()
          .describe(
            "Whether Berth deletes what the owner owns, as the garbage collector waits for the owner. Default DeleteOwned.",
          ),
        ownedResources: list(groupResource()).describe(
          "The resources that DeleteOwned deletes, and that an owner waits for.",
        ),
        timeout: duration
          .optional()
          .describe("After this time Berth releases the owner all the same. Default 0s: never."),
      })
      .optional()
      .describe("Makes the deletion of an owner wait for its pods. By default it does not wait."),
    wait: footprintWait.optional().describe("Workloads start once the agent of their node listens."),
    agent: z
      .strictObject({
        daemonSet: z
          .strictObject({
            namespace: name().describe("Its namespace."),
            name: name().describe("Its name."),
          })
          .optional()
          .describe("The agent itself. By default Berth knows no agent and checks nothing of it."),
        nodeSelector: z
          .enum(["Off", "Verify", "Manage"])
          .optional()
          .describe(
            "Verify reports what keeps the agent from a node. Manage also sets its node selector, once every node that needs it is labelled. Default Verify.",
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
  ],
).describe("Which pods need the agent, and what their nodes carry for it.");
export type NodeFootprintSpec = z.infer<typeof nodeFootprintSpec>;
export type FootprintWorkload = z.infer<typeof workload>;
export type FootprintGroup = z.infer<typeof groupSchema>;
export type FootprintNode = z.infer<typeof node>;
export type FootprintHold = NonNullable<NodeFootprintSpec["hold"]>;
export type GroupVersionResource = Readonly<z.infer<ReturnType<typeof groupResource>>>;
