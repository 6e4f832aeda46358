/** `StartupGate`, `berth.dev/v1alpha1`: the signals that a fresh node must show before pods may run on it. */

import { duration, labelKey, labelValue, selector, text, withRules } from "@berth/host";
import * as z from "zod";
import { annotationKeyProblem } from "../node/validate.ts";

/** The keys of nodetaintshandler, so that its clusters work unchanged: see `./README.md`. */
export const originalGate = {
  taint: { key: "startup.k8s.io/initializing", value: "wait", effect: "NoSchedule" },
  completed: "startup.k8s.io/completedAt",
  ready: "startup.k8s.io/ready",
  podLabels: { "startup.k8s.io/component": "init" },
} as const;

const MAX_ITEMS = 16;
const NAMESPACE = /^(?:\*|[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)$/;
const NAME = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/;

function annotationKey(): z.ZodType<string> {
  return text({ min: 1, max: 317 }).superRefine((key, context) => {
    const problem = annotationKeyProblem(key);
    if (problem !== undefined) context.addIssue({ code: "custom", message: problem });
  });
}

const objectName = (): z.ZodString => z.string().min(1).max(253).regex(NAME, "must be the name of an object");
const list = <T extends z.ZodType>(item: T) => z.array(item).max(MAX_ITEMS).readonly();
/** A list; default empty. */
const anyNumber = <T extends z.ZodType>(about: string, item: T) => list(item).default([]).describe(about);
/** An enum; default the first word. */
const choice = <const T extends string>(about: string, words: readonly [T, ...T[]]) =>
  z
    .enum(words)
    .default(words[0] as never)
    .describe(about);

/** An object; by default each of its fields has its own default. */
const section = <T extends z.core.$ZodLooseShape>(about: string, fields: T) =>
  z
    .strictObject(fields)
    .readonly()
    .prefault({} as never)
    .describe(about);

const flag = (about: string): z.ZodDefault<z.ZodBoolean> => z.boolean().default(false).describe(about);
const whole = (about: string, given: number, most: number): z.ZodDefault<z.ZodInt> =>
  z.int().min(0).max(most).default(given).describe(about);

const taint = section("The taint that holds the node. Two gates need different keys or effects.", {
  key: labelKey.default(originalGate.taint.key).describe("Of the taint."),
  value: labelValue.default(originalGate.taint.value).describe("Of the taint."),
  effect: choice("NoExecute also evicts the pods that run there already and do not tolerate it.", [
    "NoSchedule",
    "NoExecute",
  ]),
});

const podSignal = z.strictObject({
  selector: selector.prefault({ matchLabels: originalGate.podLabels }).describe("Which pods."),
  namespaces: z
    .array(z.string().regex(NAMESPACE, "must be the name of a namespace, or *"))
    .min(1)
    .max(MAX_ITEMS)
    .readonly()
    .default(["kube-system"])
    .describe("The namespaces of the pods. A user who may create pods there may open the gate. * means any."),
  ownedBy: choice("DaemonSet: only pods whose controlling DaemonSet exists.", ["DaemonSet", "Anything"]),
  daemonSets: anyNumber("Only pods of DaemonSets with these names. An empty list means any.", objectName()),
  need: choice("Which of several such pods have to be ready.", ["All", "Any"]),
  readyAnnotation: annotationKey()
    .default(originalGate.ready)
    .describe("A pod that has this annotation at true is ready, whatever its containers report."),
  readiness: choice(
    "When a pod is ready. Ready: all its containers are, or it has the annotation. Annotation: only with the annotation.",
    ["Ready", "Annotation"],
  ),
  fromBefore: choice(
    "Whether pods count that are older than the node or its last boot, are terminating, or have no container status.",
    ["Ignore", "Count"],
  ),
});

/** A pod that ends, or is older than its node or its boot, never counts. */
export type PodSignal = z.infer<typeof podSignal>;

const daemonSetSignal = z.strictObject({
  namespace: objectName().describe("Its namespace."),
  name: objectName().describe("Its name."),
});
export type DaemonSetSignal = z.infer<typeof daemonSetSignal>;

const conditionStatus = z.enum(["True", "False", "Unknown"]);
const conditionSignal = z.strictObject({
  type: z.string().min(1).max(316).describe("Such as Ready."),
  status: conditionStatus.default("True").describe("The required status."),
  defaultStatus: conditionStatus
    .optional()
    .describe(
      "The status that a node without the condition counts as having. Default none: the signal is missing.",
    ),
});
export type ConditionSignal = z.infer<typeof conditionSignal>;

const signalFields = {
  pods: anyNumber("Pods on the node that have to be ready.", podSignal),
  daemonSets: anyNumber(
    "DaemonSets with a ready pod on the node, where they are expected there at all.",
    daemonSetSignal,
  ),
  conditions: anyNumber("Conditions of the Node.", conditionSignal),
  annotations: anyNumber(
    "Annotations of the Node.",
    z.strictObject({
      key: annotationKey().describe("Its key."),
      value: text({ max: 1024 }).default("true").describe("Its value."),
    }),
  ),
  resources: anyNumber(
    "Resources that status.allocatable must offer, such as nvidia.com/gpu.",
    z.string().min(1).max(317),
  ),
  labelsSettled: flag("The labels that Berth derives are as the current rules want them."),
};

const signalGroup = z.strictObject(signalFields);
/** Signals that must all hold. */
export type SignalGroup = z.infer<typeof signalGroup>;

const LISTS = ["pods", "daemonSets", "conditions", "annotations", "resources"] as const;

const holdsSignal = (group: SignalGroup): boolean =>
  LISTS.some((name) => group[name].length > 0) || group.labelsSettled;

/** The same check in CEL: the group at `path` has at least one signal. */
const hasSignal = (path: string): string =>
  `${LISTS.map((name) => `size(${path}.${name})`).join(" + ")} > 0 || ${path}.labelsSettled`;

/** Must a new node report each condition itself before the condition counts? */
const waitsForReports = ({ conditions }: SignalGroup): boolean =>
  conditions.every(({ status, defaultStatus }) => status !== defaultStatus);
const waitsForReportsCel = (path: string): string =>
  `${path}.conditions.all(it, !has(it.defaultStatus) || it.defaultStatus != it.status)`;

const signals = z
  .strictObject({
    ...signalFields,
    anyOf: anyNumber(
      "Alternatives: all signals of one of these groups have to hold as well.",
      withRules(signalGroup, [
        { cel: hasSignal("self"), holds: holdsSignal, message: "a group without a signal would always hold" },
        {
          cel: waitsForReportsCel("self"),
          holds: waitsForReports,
          message:
            "an absent condition would make the group hold: its defaultStatus has to differ from its status",
          field: "conditions",
        },
      ]),
    ),
  })
  .prefault({})
  .describe("The signals that must all hold.");

export type GateSignals = z.infer<typeof signals>;

/** The signals of a gate by group: those that must all hold, then each alternative. */
export function signalGroups({ signals: given }: Pick<StartupGateSpec, "signals">): readonly SignalGroup[] {
  return [given, ...given.anyOf];
}

/** Schema of `spec`; parsing fills in the defaults. */
export const startupGateSpec = withRules(
  z.strictObject({
    nodeSelector: selector.prefault({}).describe("Which nodes. {} is every node."),
    controlPlane: choice("Whether nodes with a control-plane label or taint are held as well.", [
      "Skip",
      "Include",
    ]),
    admissionExcept: selector
      .optional()
      .describe(
        "New nodes that may join without the taint. A node that has the taint all the same is released like every other.",
      ),
    taint,
    completedAnnotation: annotationKey()
      .optional()
      .describe("Annotation that gets the Unix time of the release, in whole seconds."),
    signals,
    mode: choice("Continuous holds a node again when one of its signals is lost.", ["Once", "Continuous"]),
    after: anyNumber("Gates that must release a node before this gate looks at it.", objectName()),
    stableFor: duration.default("5s").describe("All signals must hold for this time without a break."),
    minimumHold: duration.default("0s").describe("A node is held at least this long."),
    timeouts: section("How long a hold may take.", {
      noPod: duration.optional().describe("While a signal has no pod on the node yet. Default never."),
      notReady: duration.optional().describe("Whatever is missing. Default never."),
      policy: choice(
        "What happens to a node that took too long: it stays held, is released, or stays held and is cordoned.",
        ["Keep", "Release", "Cordon"],
      ),
    }),
    taintRemoved: choice("What Berth does when another writer removes the taint from a held node.", [
      "Restore",
      "Release",
    ]),
    regateOnReboot: flag("Hold the node again after a reboot."),
    heldAgain: section(
      "At most this many nodes are held again at once after their release. Fresh nodes do not count.",
      {
        percent: whole("Percentage of the nodes that the gate selects; 100 turns the limit off.", 20, 100),
        nodes: whole("The limit is never below this number of nodes.", 1, 1_000_000),
      },
    ),
    backfill: section("What happens to nodes that missed admission.", {
      within: duration
        .default("5m")
        .describe(
          "Berth still gates an idle node that was not gated at its creation, within this time of its creation.",
        ),
      ignoredNamespaces: list(objectName())
        .default(["kube-system", "kube-public"])
        .describe("Pods of these namespaces do not make a node busy."),
    }),
    directBinding: choice("Whether pods may name a held node themselves without tolerating its taint.", [
      "Allow",
      "Refuse",
    ]),
    dryRun: flag("Decide, count and report, and write nothing on any node."),
  }),
  [
    {
      cel: `${hasSignal("self.signals")} || size(self.signals.anyOf) > 0 || self.minimumHold != "0s"`,
      holds: ({ signals: given, minimumHold }) =>
        holdsSignal(given) || given.anyOf.length > 0 || minimumHold !== "0s",
      message: "a gate needs at least one signal, or a minimumHold",
      field: "signals",
    },
    {
      cel: `self.mode == "Continuous" || ${waitsForReportsCel("self.signals")}`,
      holds: ({ mode, signals: given }) => mode === "Continuous" || waitsForReports(given),
      message:
        "an absent condition would let a new node go before its reporter runs: use mode Continuous, or another defaultStatus",
      field: "signals",
    },
  ],
).describe("Which nodes the gate holds, and until when.");
export type StartupGateSpec = z.infer<typeof startupGateSpec>;
