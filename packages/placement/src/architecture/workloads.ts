/** The unscheduled pods and the DaemonSets of a running Berth: decides about them, and counts the decisions. */
import { createKeySource, createObjectController, createViews, labelsIn } from "@berth/host";
import type { Pod } from "@berth/kube";
import type { Change, Component, ObjectKey } from "@berth/runtime";
import { Pass } from "../node/pass.ts";
import type { NodeHost } from "../node/wired.ts";
import { wantedFor } from "./admission-trace.ts";
import type { ArchitectureAdmission } from "./admit.ts";
import { taintKeys } from "./compile.ts";
import { daemonSetRules } from "./daemonset-reconciler.ts";
import { isPlaced, podName } from "./decide-pod.ts";
import type { ImageLibrary } from "./images/image-library.ts";
import { type PodReport, podRules } from "./pod-reconciler.ts";
import type { WorkloadObserver } from "./pod-view.ts";
import type { ArchitecturePolicies } from "./policy.ts";
import {
  type ArchitectureViews,
  architectureConcerns,
  architectureReads,
  architectureVersions,
} from "./reads.ts";
import { ArchitectureTally } from "./tally.ts";

export interface WorkloadsOptions
  extends Pick<
    NodeHost,
    "client" | "informers" | "cluster" | "clock" | "log" | "metrics" | "events" | "namespace"
  > {
  readonly images: ImageLibrary;
  readonly report: PodReport;
  /** `undefined` until some source has been read. */
  readonly policies: () => ArchitecturePolicies | undefined;
  readonly tainting: (rule: string) => boolean;
  /** Follows the decisions too. */
  readonly observer: WorkloadObserver;
  /** Counts have changed, or every workload has been decided. */
  readonly onChange: () => void;
  readonly onPod: (change: Change<Pod>) => void;
}

export interface Workloads {
  readonly views: ArchitectureViews;
  /** For answers to reviews. */
  readonly known: Pick<ArchitectureAdmission, "namespaceLabels" | "ownNamespace" | "observations">;
  readonly tally: ArchitectureTally;
  /** Over all workloads, by the current policies. */
  readonly pass: Pass;
  /** Decides about these again. */
  ask(of: { readonly pods: Iterable<ObjectKey>; readonly daemonSets?: Iterable<ObjectKey> }): void;
  /** Decides about all again, and looks up their images. */
  askAll(): void;
  /** For the leader. */
  readonly controllers: readonly Component[];
}

/** Berth decides once about all changes within this time: a new pod changes several times. Milliseconds. */
const POD_COALESCE_MS = 20;

export function createWorkloads(options: WorkloadsOptions): Workloads {
  const { policies: inForce, images, clock, namespace: ownNamespace, onChange, onPod } = options;
  const keys = (): readonly string[] => taintKeys(inForce() ?? { policies: [] });
  const isPlacedNow = (pod: Pod): boolean => isPlaced(pod, keys());
  /** Pods that this replica has decided about, as `podName`. */
  const looked = new Set<string>();
  /** Each replica answers reviews from its own memory, so it looks up the images of all pods that it sees. */
  const lookUp = (found: Iterable<Pod>): void => {
    const policies = inForce()?.policies;
    if (policies === undefined) return;
    const context = { ...known, policies, now: clock.now() };
    for (const pod of found) for (const want of wantedFor(context, pod)) images.want(want);
  };
  const views: ArchitectureViews = createViews(architectureReads, {
    ...options,
    concerns: architectureConcerns,
    versions: architectureVersions,
    onChange: {
      pods(change) {
        onPod(change);
        if (change.type === "added") lookUp([change.object]);
      },
    },
    onKeys(found, of) {
      for (const { kind, object } of found) {
        const source = kind === "Pod" ? podSource : setSource;
        // A pod that the webhook has placed needs no second decision, unless this replica has decided about it before.
        const isSettled = of === "pods" && !looked.has(podName(object)) && isPlacedNow(object);
        if (!isSettled) source.ask([views.pods.keyOf(object)], of === "namespaces" ? "low" : "high");
      }
    },
    onAll: () => askAll(),
  });
  const namespaceLabels = labelsIn(views.namespaces);
  const known: Workloads["known"] = {
    namespaceLabels: (name) => namespaceLabels(name) ?? undefined,
    ownNamespace,
    observations: images,
  };
  /** Without taint keys it does not wait for the reads. */
  const all = (): Iterable<string> | undefined => {
    if (keys().length > 0 && !(views.pods.synced && views.daemonSets.synced)) return undefined;
    const open = [...views.pods.list()].filter((pod) => !isPlacedNow(pod));
    return [
      ...open.map(podName),
      ...views.daemonSets.keys().map((it) => `DaemonSet ${it.namespace}/${it.name}`),
    ];
  };
  const pass = new Pass({ all, onDone: onChange });
  const tally = new ArchitectureTally(onChange);
  /** Objects deleted before this replica became leader produce no event, so the pass must not wait for them. */
  const checked = (found: readonly ObjectKey[]): readonly ObjectKey[] => {
    pass.check();
    return found;
  };
  const podSource = createKeySource(() => checked(views.pods.keys()));
  const setSource = createKeySource(() => checked(views.daemonSets.keys()));
  const ask: Workloads["ask"] = ({ pods, daemonSets = [] }) => {
    podSource.ask(pods);
    setSource.ask(daemonSets);
  };
  const askAll = (): void => {
    ask({ pods: views.pods.keys(), daemonSets: views.daemonSets.keys() });
    pass.check();
    lookUp(views.pods.list());
  };
  const observers: readonly WorkloadObserver[] = [tally, options.observer, pass];
  const observer: WorkloadObserver = {
    decided: (...of) => observers.forEach((it) => it.decided(...of)),
    gone: (workload) => observers.forEach((it) => it.gone(workload)),
  };
  const rules = { policies: inForce, observations: images, demand: images, observer, ownNamespace, clock };
  const ofPods = podRules({
    ...rules,
    namespaceLabels: known.namespaceLabels,
    report: options.report,
    looked,
  });
  const ofDaemonSets = daemonSetRules({
    ...rules,
    namespaceLabels,
    isTainting: (them) =>
      inForce()?.policies.some(({ rule, spec }) => them.includes(spec.taint.key) && options.tainting(rule)) ??
      false,
  });
  return {
    views,
    known,
    tally,
    pass,
    ask,
    askAll,
    controllers: [
      createObjectController({
        ...options,
        ...ofPods,
        name: "architecture-pods",
        objects: views.pods,
        sources: [podSource],
        queue: { coalesceMs: POD_COALESCE_MS },
      }),
      createObjectController({
        ...options,
        ...ofDaemonSets,
        name: "architecture-daemonsets",
        objects: views.daemonSets,
        sources: [setSource],
      }),
    ],
  };
}
