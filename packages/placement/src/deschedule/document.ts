/** `DeschedulePolicy`, `berth.dev/v1alpha1`: pods move when their node loses what they need. */

import { duration, labelKeyPattern, type Selector, selector, text, withRules } from "@berth/host";
import * as z from "zod";

/** In a list of keys: each key. */
export const EVERY = "*";
/** On a pod as an annotation, on a namespace as a label, with the value `ignore`: Berth evicts none of these pods. */
export const DESCHEDULE_KEY = "berth.dev/deschedule";
/** The annotations of the descheduler of kubernetes-sigs (`pkg/utils/pod.go`). Their values do not matter. */
export const EVICT_ANNOTATION = "descheduler.alpha.kubernetes.io/evict";
export const PREFER_NO_EVICTION_ANNOTATION = "descheduler.alpha.kubernetes.io/prefer-no-eviction";

export type RequireFit = "True" | "False" | "PendingOk";

/** Pods that stay unless a policy includes them. */
export const protections = ["Bare", "DaemonSet", "SystemCritical", "LocalStorage"] as const;
export type Protection = (typeof protections)[number];

const MAX_KEYS = 64;
const MAX_COUNT = 100_000;

const keys = z
  .array(
    text({ min: 1, max: 317 }).regex(
      new RegExp(`^[*]$|${labelKeyPattern.source}`),
      "must be a key such as example.com/gpu, or * for each key",
    ),
  )
  .max(MAX_KEYS)
  .readonly();

const selected = (about: string): z.ZodType<Selector> => selector.prefault({}).describe(about);
const count = (given: number, about: string): z.ZodDefault<z.ZodInt> =>
  z.int().min(1).max(MAX_COUNT).default(given).describe(about);
const flag = (about: string): z.ZodDefault<z.ZodBoolean> => z.boolean().default(false).describe(about);
const section = <T extends z.core.$ZodLooseShape>(about: string, fields: T) =>
  z
    .strictObject(fields)
    .readonly()
    .prefault({} as never)
    .describe(about);

const FITS: readonly unknown[] = ["True", "False", "PendingOk", true, false];

/** YAML reads a bare `True` as a boolean, so files and the API take booleans as well. */
const requireFit: z.ZodType<RequireFit> = z
  .any()
  .refine((given) => FITS.includes(given), "must be True, False or PendingOk")
  .transform((given): RequireFit => (given === true ? "True" : given === false ? "False" : given))
  .prefault("True")
  .meta({ enum: FITS, "x-kubernetes-preserve-unknown-fields": true })
  .describe(
    "True: another node takes the pod now, by the criteria of the scheduler. PendingOk: another node is right for it, and may be full. False: not checked.",
  );

const priorityThreshold = withRules(
  z.strictObject({
    name: text({ min: 1, max: 253 }).optional().describe("The priority of this PriorityClass."),
    value: z.int().min(-2_147_483_648).max(2_147_483_647).optional().describe("This priority."),
  }),
  [
    {
      cel: "has(self.name) != has(self.value)",
      holds: ({ name, value }) => (name === undefined) !== (value === undefined),
      message: "give either name or value",
    },
  ],
)
  .readonly()
  .describe("Pods of this priority or a higher one stay. Default: only system-critical pods do.");

const isNarrow = ({ matchLabels = {}, matchExpressions = [] }: Selector): boolean =>
  Object.keys(matchLabels).length + matchExpressions.length > 0;

export const deschedulePolicySpec = withRules(
  z.strictObject({
    for: duration.default("5m").describe("How long a pod must be on a wrong node before it is evicted."),
    keys: keys
      .optional()
      .describe(
        "Keys of labels. A pod that asks for another label stays. Default: those that LabelRules write.",
      ),
    taints: keys
      .default([])
      .describe(
        "Keys of NoSchedule taints: a pod that does not tolerate one of them is evicted. Default none.",
      ),
    namespaceSelector: selected("Pods of these namespaces. Default all."),
    podSelector: selected("These pods. Default all."),
    everything: flag("Confirms that each key and each pod of the cluster are meant."),
    requireFit,
    minReplicas: count(
      1,
      "Pods of an owner, such as a ReplicaSet, that has fewer pods stay. Pods without a controller have no owner.",
    ),
    priorityThreshold: priorityThreshold.optional(),
    minAge: duration.default("0s").describe("Younger pods stay."),
    include: z
      .array(z.enum(protections))
      .max(protections.length)
      .readonly()
      .default([])
      .describe(
        "Pods that stay otherwise: without a controller, of a DaemonSet, system-critical, with an emptyDir or hostPath volume.",
      ),
    limits: section("How many evictions there are at once, over all policies with these limits.", {
      cluster: count(20, "In progress in the cluster, until the replacement is Ready."),
      node: count(5, "In progress from one node."),
      namespace: count(10, "In progress in one namespace."),
      perMinute: count(30, "Begun within a minute."),
    }),
    breaker: section("Evictions freeze when so many pods would go within 5 minutes.", {
      percent: z
        .int()
        .min(0)
        .max(100)
        .default(10)
        .describe("More than this share of the pods that the policy is about. 100 never freezes."),
      pods: z.int().min(0).max(MAX_COUNT).default(10).describe("And at least so many."),
    }),
    dryRun: flag("Decides, counts and reports, and evicts nothing."),
  }),
  [
    {
      cel: `!has(self.keys) || !("*" in self.keys) || self.everything || ${[
        "namespaceSelector",
        "podSelector",
      ]
        .flatMap((it) => [`self.${it}.matchLabels`, `self.${it}.matchExpressions`])
        .map((it) => `(has(${it}) && size(${it}) > 0)`)
        .join(" || ")}`,
      holds: ({ keys: of, everything, namespaceSelector, podSelector }) =>
        of?.includes(EVERY) !== true || everything || isNarrow(namespaceSelector) || isNarrow(podSelector),
      message:
        "each key of each pod is every pod of the cluster: select pods or namespaces, or confirm it with everything: true",
      field: "keys",
    },
  ],
).describe("Which pods move, when, and how many at once.");
export type DeschedulePolicySpec = z.infer<typeof deschedulePolicySpec>;
