/** `ArchitecturePolicy`, `berth.dev/v1alpha1`: pods run only where all their images do. */

import { duration, labelKey, selector, withRules } from "@berth/host";
import * as z from "zod";

/** The taint key of archaware-controller. Berth takes over its clusters unchanged: see `./README.md`. */
export const ORIGINAL_ARCHITECTURE_KEY = "supported-arch";
/** The scheduling gate that holds a pod while Berth looks up its images. */
export const ARCHITECTURE_GATE = "berth.dev/architecture";
/** Pod condition, always `False`: Berth keeps the pod pending because it can run nowhere. Berth removes it later. */
export const ARCHITECTURE_CONDITION = "berth.dev/ArchitectureFits";
/** On a pod: the architectures it runs on (`amd64,arm64`), whatever its images say. `*` is any. */
export const ARCHITECTURES_ANNOTATION = "berth.dev/architectures";
/** On a namespace, with the value `ignore`: its pods are opted out. */
export const ARCHITECTURE_LABEL = "berth.dev/architecture";
/** On a policy, with the value `true`: Berth may taint its nodes (`bootstrap: Confirm`). */
export const BOOTSTRAP_ANNOTATION = "berth.dev/bootstrap-confirmed";

const ARCHITECTURE_NAME = /^[a-z0-9](?:[-a-z0-9_.]{0,61}[a-z0-9])?$/;
const NAMESPACE = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;
const MAX_ARCHITECTURES = 16;
const MAX_IMAGES = 256;
const MAX_NAMESPACES = 64;

const NOT_A_NAME = "must be an architecture as nodes have it: amd64, arm64, arm, ppc64le, s390x, …";

const architecture = (): z.ZodString => z.string().min(1).max(63).regex(ARCHITECTURE_NAME, NOT_A_NAME);

const architectures = (least: number): z.ZodReadonly<z.ZodArray<z.ZodString>> =>
  z.array(architecture()).min(least).max(MAX_ARCHITECTURES).readonly();

/** Schema of `spec`; parsing fills in the defaults. */
export const architecturePolicySpec = withRules(
  z.strictObject({
    mode: z
      .enum(["Taint", "Affinity", "Both"])
      .describe(
        "Taint: Berth taints nodes with their architecture, and pods tolerate those that their images run on. Affinity: Berth narrows the node affinity of new pods. Both: for a change from one to the other.",
      ),
    preset: z
      .enum(["multiarch-tuning-operator"])
      .optional()
      .describe(
        "Behaves as that operator: Berth leaves a pod alone that itself requires architectures, by its node selector or in every term of its required node affinity.",
      ),
    priority: z
      .int()
      .min(-1000)
      .max(1000)
      .default(0)
      .describe(
        "If several policies select a pod, the highest priority governs it, then files before objects, then the oldest.",
      ),
    namespaceSelector: selector
      .prefault({})
      .describe("Selects namespaces by their labels. {} selects every one."),
    excludedNamespaces: z
      .array(z.string().regex(NAMESPACE, "must be the name of a namespace"))
      .max(MAX_NAMESPACES)
      .readonly()
      .default([])
      .describe(
        "The policy ignores pods of these namespaces, and of namespaces with the label berth.dev/architecture=ignore.",
      ),
    podSelector: selector.prefault({}).describe("Selects pods by their labels. {} selects every one."),
    taint: z
      .strictObject({
        key: labelKey
          .default(ORIGINAL_ARCHITECTURE_KEY)
          .describe("Key of the taint. Its value is the architecture of the node, its effect NoSchedule."),
        nodes: z
          .enum(["Taint", "Leave"])
          .default("Taint")
          .describe("Leave: another writer taints the nodes, and Berth only makes pods tolerate that."),
        nodeSelector: selector.prefault({}).describe("The nodes that get the taint. {} selects every node."),
      })
      .readonly()
      .prefault({})
      .describe("For the modes Taint and Both."),
    bootstrap: z
      .enum(["Automatic", "Confirm"])
      .default("Automatic")
      .describe(
        "Berth taints nodes once all waiting pods and all DaemonSets tolerate it; with Confirm, not before the annotation berth.dev/bootstrap-confirmed is true.",
      ),
    maxHold: duration
      .default("30s")
      .describe("The longest time that Berth holds a pod whose images are not known."),
    afterMaxHold: z
      .enum(["Fallback", "Release", "Keep"])
      .default("Release")
      .describe(
        "What happens to the pod after maxHold: it runs on the fallback architectures, runs anywhere, or stays held.",
      ),
    fallbackArchitectures: architectures(0)
      .default([])
      .describe(
        "The architectures for pods whose images cannot be resolved, unless Closed. An empty list means every architecture.",
      ),
    unresolvable: z
      .enum(["Open", "Closed"])
      .default("Open")
      .describe("Whether a pod may run if Berth cannot resolve its images."),
    impossible: z
      .enum(["Refuse", "Hold"])
      .optional()
      .describe(
        "For a pod whose images have no architecture in common, or none that the pod requires. Refuse: its creation fails. Hold: it stays pending. Default Refuse; with mode Taint or a preset Hold.",
      ),
    preferences: z
      .array(
        z.strictObject({
          architecture: architecture().describe("Such as arm64."),
          weight: z.int().min(1).max(100).describe("As in preferred node affinity."),
        }),
      )
      .max(MAX_ARCHITECTURES)
      .readonly()
      .default([])
      .describe("The architectures that a pod prefers, for the modes Affinity and Both."),
    images: z
      .array(
        z.strictObject({
          image: z.string().min(1).max(512).describe("A whole name, or one that ends with *."),
          architectures: architectures(1).describe("The architectures that it runs on."),
        }),
      )
      .max(MAX_IMAGES)
      .readonly()
      .default([])
      .describe(
        "The architectures of images, without a request to a registry. The longest name that matches counts.",
      ),
  }),
  [
    {
      cel: 'self.afterMaxHold != "Fallback" || size(self.fallbackArchitectures) > 0',
      holds: ({ afterMaxHold, fallbackArchitectures }) =>
        afterMaxHold !== "Fallback" || fallbackArchitectures.length > 0,
      message: "Fallback needs fallbackArchitectures",
      field: "fallbackArchitectures",
    },
  ],
).describe("Which pods the policy governs, and how it keeps them on nodes that run all their images.");
export type ArchitecturePolicySpec = z.infer<typeof architecturePolicySpec>;
export type ImageOverride = ArchitecturePolicySpec["images"][number];
export type ArchitecturePreference = ArchitecturePolicySpec["preferences"][number];
