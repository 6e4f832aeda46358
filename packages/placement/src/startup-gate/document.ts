/** `StartupGate`, `berth.dev/v1alpha1`: what a fresh node has to show before pods may run on it. */

import { duration, labelKey, labelValue, type Selector, selector, text, withRules } from "@berth/host";
import * as z from "zod";
import { annotationKeyProblem } from "../node/validate.ts";

/** The keys of nodetaintshandler, whose clusters are served unchanged: `./README.md`. */
export const originalGate = {
  taint: { key: "startup.k8s.io/initializing", value: "wait", effect: "NoSchedule" },
  completed: "startup.k8s.io/completedAt",
  ready: "startup.k8s.io/ready",
  podLabels: { "startup.k8s.io/component": "init" },
} as const;

export interface GateTaint {
  readonly key: string;
  /** Default `wait`. */
  readonly value: string;
  /** `NoExecute` also evicts what runs already. Default `NoSchedule`. */
  readonly effect: "NoSchedule" | "NoExecute";
}

/** Pods on the node that have to be ready. A pod that ends, or is older than its node or its boot, never counts. */
export interface PodSignal {
  /** Only labels with values, as the API server selects them. Default those of the contract. */
  readonly selector: Selector;
  /** Who may put a pod there may open the gate. `*` is any. Default `kube-system`. */
  readonly namespaces: readonly string[];
  /** `DaemonSet`: only pods whose controlling DaemonSet exists. Default. */
  readonly ownedBy: "DaemonSet" | "Anything";
  /** Only of DaemonSets with these names; empty is any of the namespaces. */
  readonly daemonSets: readonly string[];
  /** Of several such pods on a node. Default `All`. */
  readonly need: "All" | "Any";
  /** A pod with this annotation at `true` is ready whatever its containers say. Default that of the contract. */
  readonly readyAnnotation: string;
  /**
   * `Count` asks nothing of a pod's life: it may be older than the node or its boot, ending, or without a container
   * status. Default `Ignore`.
   */
  readonly fromBefore: "Ignore" | "Count";
}

export interface DaemonSetSignal {
  readonly namespace: string;
  readonly name: string;
}

type ConditionStatus = "True" | "False" | "Unknown";

export interface ConditionSignal {
  readonly type: string;
  /** Default `True`. */
  readonly status: ConditionStatus;
  /** The status that a node without the condition counts as having. Default none: the signal is missing. */
  readonly defaultStatus?: ConditionStatus | undefined;
}

/** Signals that have to hold together. */
export interface SignalGroup {
  readonly pods: readonly PodSignal[];
  /** Those of them that are expected on the node by the scheduler's own rules need a ready pod there. */
  readonly daemonSets: readonly DaemonSetSignal[];
  /** Conditions of the Node. */
  readonly conditions: readonly ConditionSignal[];
  /** Annotations of the Node. Default value `true`. */
  readonly annotations: readonly { readonly key: string; readonly value: string }[];
  /** Extended resources of which the node has to offer some. */
  readonly resources: readonly string[];
  /** The labels that rules of Berth derive stand as the current rules want them. Default false. */
  readonly labelsSettled: boolean;
}

export interface GateSignals extends SignalGroup {
  /** Alternatives: one of these groups has to hold as well. Default none. */
  readonly anyOf: readonly SignalGroup[];
}

/** The signals of a gate by group: those that all have to hold, then each alternative. */
export function signalGroups({ signals }: Pick<StartupGateSpec, "signals">): readonly SignalGroup[] {
  return [signals, ...signals.anyOf];
}

export interface GateTimeouts {
  /** From the beginning of the hold, while a signal has no pod on the node yet. Default: never. */
  readonly noPod?: string | undefined;
  /** From the beginning of the hold, whatever is missing. Default: never. */
  readonly notReady?: string | undefined;
  /** Default `Keep`: hold on, and say so. `Cordon` also makes the node unschedulable until it is ready. */
  readonly policy: "Keep" | "Release" | "Cordon";
}

export interface GateBackfill {
  /** A node that was not gated at its creation is gated within this time of it, when idle. `0s`: never. Default `5m`. */
  readonly within: string;
  /** Pods of these namespaces do not make a node busy. Default `kube-system` and `kube-public`. */
  readonly ignoredNamespaces: readonly string[];
}

export interface StartupGateSpec {
  readonly nodeSelector: Selector;
  /** Nodes with a control-plane label or taint. Default `Skip`. */
  readonly controlPlane: "Skip" | "Include";
  /** New nodes that are let in without the taint; one that has it all the same is let go like every other. Default none. */
  readonly admissionExcept?: Selector | undefined;
  readonly taint: GateTaint;
  /** Gets the Unix time of the release in whole seconds. Default with the taint of the contract: that of the contract. */
  readonly completedAnnotation?: string | undefined;
  readonly signals: GateSignals;
  /** `Continuous` holds a node again when a signal is lost. Default `Once`. */
  readonly mode: "Once" | "Continuous";
  /** Gates that have to let go of a node before this one looks at it. */
  readonly after: readonly string[];
  /** All signals have to hold for so long without a break. Default `5s`. */
  readonly stableFor: string;
  /** A node is held at least this long. Default `0s`. */
  readonly minimumHold: string;
  readonly timeouts: GateTimeouts;
  /** When somebody else takes the taint off a held node: put it back, or take that for a release. Default `Restore`. */
  readonly taintRemoved: "Restore" | "Release";
  /** Hold the node again after a reboot (another `bootID`). Default false. */
  readonly regateOnReboot: boolean;
  /** No more nodes than this are held again at once: of all it selects, and never below `nodes`. 100 is off. */
  readonly heldAgain: { readonly percent: number; readonly nodes: number };
  readonly backfill: GateBackfill;
  /** `Refuse`: a pod that names a held node and does not tolerate its taint is not admitted. Default `Allow`. */
  readonly directBinding: "Allow" | "Refuse";
  /** Decide, count and report, and write nothing on any node. Default false. */
  readonly dryRun: boolean;
}

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
const list = <T extends z.ZodType>(item: T, least = 0): z.ZodReadonly<z.ZodArray<T>> => {
  const items = z.array(item).max(MAX_ITEMS);
  return (least > 0 ? items.min(least) : items).readonly();
};

const taint = z
  .strictObject({
    key: labelKey.default(originalGate.taint.key).describe("Of the taint."),
    value: labelValue.default(originalGate.taint.value).describe("Of the taint."),
    effect: z
      .enum(["NoSchedule", "NoExecute"])
      .default("NoSchedule")
      .describe("NoExecute also evicts the pods that run there already and do not tolerate it."),
  })
  .readonly()
  .prefault({})
  .describe("What holds the node. Two gates need different keys or effects.");

const podSignal: z.ZodType<PodSignal> = z.strictObject({
  selector: selector.prefault({ matchLabels: originalGate.podLabels }).describe("Which pods."),
  namespaces: list(z.string().regex(NAMESPACE, "must be the name of a namespace, or *"), 1)
    .default(["kube-system"])
    .describe("Who may make pods in these may open the gate. * is any."),
  ownedBy: z
    .enum(["DaemonSet", "Anything"])
    .default("DaemonSet")
    .describe("DaemonSet: only pods whose controlling DaemonSet exists."),
  daemonSets: list(objectName())
    .default([])
    .describe("Only pods of DaemonSets with these names; none is any."),
  need: z.enum(["All", "Any"]).default("All").describe("Which of several such pods have to be ready."),
  readyAnnotation: annotationKey()
    .default(originalGate.ready)
    .describe("A pod that has it at true is ready whatever its containers say."),
  fromBefore: z
    .enum(["Ignore", "Count"])
    .default("Ignore")
    .describe(
      "Whether pods count that are older than the node or its last boot, are ending, or have no container status.",
    ),
});

const conditionStatus = z.enum(["True", "False", "Unknown"]);

const signalFields = {
  pods: list(podSignal).default([]).describe("Pods on the node that have to be ready."),
  daemonSets: list(
    z.strictObject({
      namespace: objectName().describe("Its namespace."),
      name: objectName().describe("Its name."),
    }),
  )
    .default([])
    .describe("DaemonSets with a ready pod on the node, where they are expected there at all."),
  conditions: list(
    z.strictObject({
      type: z.string().min(1).max(316).describe("Such as Ready."),
      status: conditionStatus.default("True").describe("What it has to be."),
      defaultStatus: conditionStatus
        .optional()
        .describe("What a node without the condition counts as having. Default none: the signal is missing."),
    }),
  )
    .default([])
    .describe("Conditions of the Node."),
  annotations: list(
    z.strictObject({
      key: annotationKey().describe("Its key."),
      value: text({ max: 1024 }).default("true").describe("Its value."),
    }),
  )
    .default([])
    .describe("Annotations of the Node."),
  resources: list(z.string().min(1).max(317))
    .default([])
    .describe("Resources of which status.allocatable has to offer some, such as nvidia.com/gpu."),
  labelsSettled: z
    .boolean()
    .default(false)
    .describe("The labels that Berth derives stand as the current rules want them."),
};

const count = ({
  pods,
  daemonSets,
  conditions,
  annotations,
  resources,
  labelsSettled,
}: SignalGroup): number =>
  pods.length +
  daemonSets.length +
  conditions.length +
  annotations.length +
  resources.length +
  (labelsSettled ? 1 : 0);

/** The same in CEL: a group of signals at `self` or below it has at least one. */
const hasSignal = (path: string): string =>
  `size(${path}.pods) + size(${path}.daemonSets) + size(${path}.conditions) + ` +
  `size(${path}.annotations) + size(${path}.resources) > 0 || ${path}.labelsSettled`;

/** Does a new node have to report each condition itself before it counts? */
const waitsForReports = ({ conditions }: SignalGroup): boolean =>
  conditions.every(({ status, defaultStatus }) => status !== defaultStatus);
const waitsForReportsCel = (path: string): string =>
  `${path}.conditions.all(it, !has(it.defaultStatus) || it.defaultStatus != it.status)`;

const signals: z.ZodType<GateSignals> = z
  .strictObject({
    ...signalFields,
    anyOf: list(
      withRules<SignalGroup>(z.strictObject(signalFields), [
        {
          cel: hasSignal("self"),
          holds: (group) => count(group) > 0,
          message: "a group without a signal would always hold",
        },
        {
          cel: waitsForReportsCel("self"),
          holds: waitsForReports,
          message:
            "an absent condition would make the group hold: its defaultStatus has to differ from its status",
          field: "conditions",
        },
      ]),
    )
      .default([])
      .describe("Alternatives: all signals of one of these groups have to hold as well."),
  })
  .prefault({})
  .describe("What has to hold, all of it.");

/** Schema of `spec`; parsing fills in the defaults. */
export const startupGateSpec: z.ZodType<StartupGateSpec> = withRules<StartupGateSpec>(
  z.strictObject({
    nodeSelector: selector.prefault({}).describe("Which nodes. {} is every node."),
    controlPlane: z
      .enum(["Skip", "Include"])
      .default("Skip")
      .describe("Whether nodes with a control-plane label or taint are held as well."),
    admissionExcept: selector
      .optional()
      .describe(
        "New nodes that are let in without the taint; one that has it all the same is let go like every other.",
      ),
    taint,
    completedAnnotation: annotationKey()
      .optional()
      .describe("Annotation that gets the Unix time of the release, in whole seconds."),
    signals,
    mode: z
      .enum(["Once", "Continuous"])
      .default("Once")
      .describe("Continuous holds a node again when one of its signals is lost."),
    after: list(objectName())
      .default([])
      .describe("Gates that have to let go of a node before this one looks at it."),
    stableFor: duration.default("5s").describe("All signals have to hold for so long without a break."),
    minimumHold: duration.default("0s").describe("A node is held at least this long."),
    timeouts: z
      .strictObject({
        noPod: duration.optional().describe("While a signal has no pod on the node yet. Default never."),
        notReady: duration.optional().describe("Whatever is missing. Default never."),
        policy: z
          .enum(["Keep", "Release", "Cordon"])
          .default("Keep")
          .describe("What becomes of a node that took too long: it is held on, let go, or also cordoned."),
      })
      .readonly()
      .prefault({})
      .describe("How long a hold may take."),
    taintRemoved: z
      .enum(["Restore", "Release"])
      .default("Restore")
      .describe("What it means when somebody else takes the taint off a held node."),
    regateOnReboot: z.boolean().default(false).describe("Hold the node again after a reboot."),
    heldAgain: z
      .strictObject({
        percent: z
          .int()
          .min(0)
          .max(100)
          .default(20)
          .describe("Of the nodes that the gate selects; 100 is off."),
        nodes: z.int().min(0).max(1_000_000).default(1).describe("Never below so many nodes."),
      })
      .readonly()
      .prefault({})
      .describe(
        "At most so many nodes are held again at once after they were let go; fresh nodes do not count.",
      ),
    backfill: z
      .strictObject({
        within: duration
          .default("5m")
          .describe("A node that was not gated at its creation is gated within this time of it, when idle."),
        ignoredNamespaces: list(objectName())
          .default(["kube-system", "kube-public"])
          .describe("Pods of these namespaces do not make a node busy."),
      })
      .readonly()
      .prefault({})
      .describe("What happens to nodes that missed admission."),
    directBinding: z
      .enum(["Allow", "Refuse"])
      .default("Allow")
      .describe("Whether pods may name a held node themselves without tolerating its taint."),
    dryRun: z.boolean().default(false).describe("Decide, count and report, and write nothing on any node."),
  }),
  [
    {
      cel: `${hasSignal("self.signals")} || size(self.signals.anyOf) > 0 || self.minimumHold != "0s"`,
      holds: ({ signals: given, minimumHold }) =>
        count(given) > 0 || given.anyOf.length > 0 || minimumHold !== "0s",
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
).describe("Which nodes are held, by what, and until when.");

/** What Berth reports about a gate: counts and first names, never a list of all nodes. */
export interface StartupGateStatus {
  readonly observedGeneration?: number;
  /** Nodes that the gate selects. */
  readonly selectedNodes?: number;
  /** Nodes that it holds now. */
  readonly heldNodes?: number;
  /** Those of them that took longer than a timeout. */
  readonly timedOutNodes?: number;
  /** The first held nodes by name, at most 5; in a dry run those that would be held. */
  readonly firstNodes?: readonly string[];
  /** Nodes that the gate would hold, and nodes with its taint that it would let go. Only in a dry run. */
  readonly wouldHoldNodes?: number;
  readonly wouldReleaseNodes?: number;
}
