/** The parts of a running Berth that have to do with architecture policies, put together. */

import { createKeySource, createStatusController, DocumentSource, FaultReport } from "@berth/host";
import { daemonSets as daemonSetResource, type Pod, pods as podResource } from "@berth/kube";
import {
  type Change,
  type Controller,
  createController,
  type Informer,
  keyOf,
  type ObjectKey,
  toKeyText,
} from "@berth/runtime";
import { type DaemonSetWatch } from "../node/daemonset-watch.ts";
import { FirstPass } from "../node/first-pass.ts";
import { tellAll } from "../node/observer.ts";
import type { Wired, WiringDeps } from "../node/wired.ts";
import { type ArchitectureAnswers } from "./admission.ts";
import { wantedFor } from "./admission-trace.ts";
import { type ArchitectureAdmission } from "./admit.ts";
import { createBootstraps } from "./bootstraps.ts";
import { bindArchitecture } from "./capability.ts";
import { architectureRules, taintKeys } from "./compile.ts";
import { createDaemonSetReconciler } from "./daemonset-reconciler.ts";
import { isPlaced } from "./decide-pod.ts";
import type { ImageLibrary } from "./images/image-library.ts";
import { createLeftovers } from "./leftovers.ts";
import { createArchitectureMetrics } from "./metrics.ts";
import { createPodReconciler, type PodMemory } from "./pod-reconciler.ts";
import { type WorkloadObserver } from "./pod-view.ts";
import { ARCHITECTURE, type ArchitecturePolicies } from "./policy.ts";
import { type ArchitecturePolicy, architecturePolicies, architecturePolicyKind } from "./resource.ts";
import { createArchitectureReview } from "./review.ts";
import { type ArchitectureJudgement, type ArchitectureProgress, decideArchitectureStatus } from "./status.ts";
import { ArchitectureNodeTally, ArchitectureTally } from "./tally.ts";
import { ArchitectureWatches } from "./watches.ts";
import { WorkloadPass } from "./workload-pass.ts";

export interface ArchitectureDeps extends WiringDeps {
  readonly policies: Informer<ArchitecturePolicy>;
  readonly daemonSets: DaemonSetWatch;
  readonly images: ImageLibrary;
  /** Berth's own: its pods are never held. */
  readonly ownNamespace: string | undefined;
  /** Whether the API server asks about new pods. */
  readonly admission: () => ArchitectureJudgement | undefined;
  /** An unscheduled pod that tells whether it came through admission. */
  readonly onPod: (change: Change<Pod>) => void;
  /** Other policies are in force. */
  readonly onChange: () => void;
  readonly recheckAll: () => void;
}

export interface WiredArchitecture extends Wired {
  readonly policies: () => ArchitecturePolicies | undefined;
  /** What the API server is answered by. */
  readonly answers: ArchitectureAnswers;
  /** The state of admission has changed. */
  readonly askStatuses: () => void;
}

/** A pod changes several times while it is made: once is enough. Milliseconds. */
const POD_COALESCE_MS = 20;

export function wireArchitecture(deps: ArchitectureDeps): WiredArchitecture {
  const { client, cluster, nodes, policies: objects, daemonSets: sets, images, events } = deps;
  const { ownNamespace, clock, log, metrics } = deps;
  const common = { client, cluster, clock, log, metrics };
  const architectureMetrics = createArchitectureMetrics(metrics);
  const faults = new FaultReport(deps.onFault);
  const inForce = (): ArchitecturePolicies | undefined => documents.inForce;
  const isIdle = (): boolean => {
    const policies = documents.inForce;
    return policies?.policies.length === 0 && policies.policy.isUndecided !== true;
  };

  const podSource = createKeySource(() => beginning(watches.pods.list()));
  const setSource = createKeySource(() => beginning(sets.list()));
  const keysOf = (found: Iterable<Parameters<typeof keyOf>[1]>): ObjectKey[] =>
    Array.from(found, (object) => keyOf(cluster, object));
  /** Of what was gone before this replica led, nobody has told: it is not waited for. */
  const beginning = (found: Iterable<Parameters<typeof keyOf>[1]>): ObjectKey[] => {
    pass.check();
    return keysOf(found);
  };
  const askAll = (): void => {
    podSource.ask(keysOf(watches.pods.list()));
    setSource.ask(keysOf(sets.list()));
    pass.check();
    lookUp(watches.pods.list());
  };
  const context = (): ArchitectureAdmission | undefined => {
    const policies = inForce()?.policies;
    const namespaceLabels = (name: string) => watches.namespaceLabels(name) ?? undefined;
    return policies && { policies, namespaceLabels, ownNamespace, sight: images, now: clock.now() };
  };
  /** Each replica answers reviews by what it knows itself, so each has the images of pods that it sees looked up. */
  const lookUp = (found: Iterable<Pod>): void => {
    const known = context();
    if (known === undefined) return;
    for (const pod of found) for (const want of wantedFor(known, pod)) images.want(want);
  };
  const memories = new Map<string, PodMemory>();
  const isPlacedNow = (pod: Pod): boolean => isPlaced(pod, taintKeys(inForce() ?? { policies: [] }));
  const watches = new ArchitectureWatches({
    ...common,
    onPod(pod) {
      const key = keyOf(cluster, pod);
      // What the webhook has decided, and nothing here has touched, costs no second decision.
      if (memories.has(toKeyText(key)) || !isPlacedNow(pod)) podSource.ask([key], "high");
    },
    onPodChange(change) {
      deps.onPod(change);
      if (change.type === "added") lookUp([change.object]);
    },
    onNamespace(namespace) {
      podSource.ask(keysOf(watches.podsOf(namespace)));
      setSource.ask(keysOf(sets.list()).filter((key) => key.namespace === namespace));
    },
    onSynced: () => askAll(),
  });

  const tally = new ArchitectureTally(() => review.ask());
  const nodeTally = new ArchitectureNodeTally(() => review.ask());
  const firstPass = new FirstPass({ nodes, onDone: () => review.ask() });
  const pass = new WorkloadPass({
    workloads: () => workloads(),
    onDone: () => review.ask(),
  });
  /** Without a taint nothing has to be covered. */
  const workloads = (): Iterable<string> | undefined => {
    const isTainting = taintKeys(inForce() ?? { policies: [] }).length > 0;
    if (isTainting && !(watches.pods.synced && sets.synced)) return undefined;
    const nameOf = (kind: string) => (key: ObjectKey) => `${kind} ${key.namespace}/${key.name}`;
    return [
      ...keysOf([...watches.pods.list()].filter((pod) => !isPlacedNow(pod))).map(nameOf("Pod")),
      ...keysOf(sets.list()).map(nameOf("DaemonSet")),
    ];
  };
  const bootstraps = createBootstraps({
    policies: inForce,
    workloads: tally,
    nodes: nodeTally,
    workloadsLooked: () => pass.done,
    nodesLooked: () => firstPass.done,
  });
  const review = createArchitectureReview({
    policies: inForce,
    tainting: (rule) => bootstraps.tainting(rule),
    images,
    onTainting: deps.recheckAll,
    onStatus: () => statuses.askAll(),
    onOpen: (keys) => {
      podSource.ask(keys.pods);
      setSource.ask(keys.daemonSets);
    },
    cluster,
    clock,
  });
  const observer: WorkloadObserver = {
    decided(workload, outcome) {
      tally.decided(workload, outcome);
      review.decided(workload, outcome);
      pass.decided(workload);
    },
    gone(workload) {
      tally.gone(workload);
      review.gone(workload);
      pass.gone(workload);
    },
  };
  architectureMetrics.counts({
    waiting: () => tally.total.waiting,
    impossible: () => tally.total.impossible,
    uncovered: () => tally.total.uncovered,
    tainted: () => nodeTally.tainted,
  });

  let isLingering = false;
  const wantWatches = (): void => {
    const policies = inForce()?.policies ?? [];
    watches.want(policies.length > 0 || isLingering);
    sets.want(ARCHITECTURE, taintKeys({ policies }).length > 0);
    if (policies.length > 0) images.wake();
  };
  const leftovers = createLeftovers({
    client,
    isIdle,
    gated: () => watches.gated(),
    onLinger(needed) {
      isLingering = needed;
      wantWatches();
    },
    clock,
    log,
  });
  const documents = new DocumentSource(architectureRules, (policies) => {
    faults.report("policies", documents.configFaults());
    architectureMetrics.taken(policies.policies.length, policies.faults.length);
    pass.begin();
    leftovers.policiesChanged(policies.policies.length);
    // While what was watched is still known: what is watched no longer leaves the counts.
    askAll();
    // Pods that the gate holds are let go first.
    if (!isIdle()) wantWatches();
    review.ask();
    statuses.askAll();
    deps.onChange();
    deps.recheckAll();
  });

  const podController: Controller = createController({
    name: "architecture-pods",
    reconcile: createPodReconciler({
      pods: watches.pods,
      namespaceLabels: (name) => watches.namespaceLabels(name) ?? undefined,
      policies: inForce,
      ownNamespace,
      sight: images,
      demand: images,
      patchPod: (namespace, name, body, signal) =>
        client.patch(podResource, { namespace, name }, { type: "json", body }, { signal }),
      patchStatus: (namespace, name, body, signal) =>
        client.patch(
          podResource,
          { namespace, name },
          { type: "strategic", body },
          { subresource: "status", signal },
        ),
      events,
      observer,
      report: architectureMetrics,
      clock,
      memories,
    }),
    sources: [podSource],
    queue: { coalesceMs: POD_COALESCE_MS },
    clock,
    log,
    metrics,
  });
  const setController: Controller = createController({
    name: "architecture-daemonsets",
    reconcile: createDaemonSetReconciler({
      daemonSets: sets,
      namespaceLabels: (name) => watches.namespaceLabels(name),
      policies: inForce,
      sight: images,
      demand: images,
      patch: (namespace, name, body, signal) =>
        client.patch(daemonSetResource, { namespace, name }, { type: "json", body }, { signal }),
      isTainting: (keys) =>
        inForce()?.policies.some(
          ({ rule, spec }) => keys.includes(spec.taint.key) && bootstraps.tainting(rule),
        ) ?? false,
      observer,
      clock,
      ...(ownNamespace !== undefined && { ownNamespace }),
      events,
    }),
    sources: [setSource],
    clock,
    log,
    metrics,
  });
  const progressOf = (rule: string): ArchitectureProgress | undefined => {
    const bootstrap = bootstraps.state(rule);
    const policy = inForce()?.policies.find((it) => it.rule === rule);
    return (
      bootstrap &&
      policy && {
        bootstrap,
        taintedNodes: firstPass.done ? nodeTally.counts(rule).tainted : undefined,
        uncovered: pass.done ? tally.uncovered(policy.spec.taint.key) : undefined,
        pods: pass.done ? tally.pods(rule) : undefined,
      }
    );
  };
  const statuses = createStatusController({
    ...common,
    name: "architecture-policies",
    resource: architecturePolicies,
    objects,
    judge: (name, version) => documents.resultOf(name, version),
    action: "KeepArchitecturePolicy",
    noun: "architecture policy",
    isGood: ({ status }) => status === "True",
    events,
    decide: (policy, judgement, rule) =>
      decideArchitectureStatus({
        policy,
        judgement,
        progress: progressOf(rule),
        admission: deps.admission(),
        now: clock.now(),
      }),
  });
  sets.subscribe({
    onSynced: () => askAll(),
    onVersion: ({ object }) => setSource.ask([keyOf(cluster, object)], "high"),
  });
  const follower = deps.follow({
    kind: architecturePolicyKind,
    documents: objects,
    capability: ARCHITECTURE,
    source: documents,
    onKnown: () => firstPass.check(),
  });

  return {
    capability: bindArchitecture({ policies: inForce, tainting: (rule) => bootstraps.tainting(rule) }),
    policies: inForce,
    observer: tellAll([nodeTally, firstPass]),
    answers: {
      namespaceLabels: (name) => watches.namespaceLabels(name) ?? undefined,
      ownNamespace,
      sight: images,
      now: () => clock.now(),
      onPod: (result) => architectureMetrics.admitted(result),
    },
    onSettings: (read) => documents.setConfig(read.documentsOf(architecturePolicyKind)),
    askStatuses: () => statuses.askAll(),
    components: {
      // Unscheduled pods and namespaces are read while a policy is in force.
      caches: [...watches.components, ...images.always],
      everywhere: [follower],
      elected: [
        review.component,
        leftovers.component,
        podController,
        setController,
        statuses.controller,
        ...images.elected,
      ],
    },
  };
}
