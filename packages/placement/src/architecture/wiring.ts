/** Wires the components of a running Berth that serve architecture policies. */
import { bindAdmission, createKeySource, createObjectController } from "@berth/host";
import { daemonSets, type Pod, pods } from "@berth/kube";
import { type Controller, keyOf, type ObjectKey } from "@berth/runtime";
import { onceCapability } from "../node/once-capability.ts";
import { NodeCounts, Pass } from "../node/pass.ts";
import type { NodeCapability, NodeHost, Wired } from "../node/wired.ts";
import { architectureAdmission, architectureReviews } from "./admission.ts";
import { wantedFor } from "./admission-trace.ts";
import { type ArchitectureAdmission } from "./admit.ts";
import { createBootstraps } from "./bootstrap.ts";
import { architectureFields, bindArchitecture } from "./capability.ts";
import { architectureRules, taintKeys } from "./compile.ts";
import { daemonSetRules } from "./daemonset-reconciler.ts";
import { isPlaced, podName } from "./decide-pod.ts";
import { ARCHITECTURE_CONDITION, ARCHITECTURE_GATE } from "./document.ts";
import { imageRegistriesKind } from "./image-registries.ts";
import { createImageLibrary, type RegistrySettings } from "./images/image-library.ts";
import type { ImagesOnce } from "./images/once.ts";
import { createLeftovers } from "./leftovers.ts";
import { createArchitectureMetrics } from "./metrics.ts";
import { architectureOnce } from "./once.ts";
import { architecturePermissions } from "./permissions.ts";
import { podRules } from "./pod-reconciler.ts";
import { type WorkloadObserver } from "./pod-view.ts";
import { ARCHITECTURE, type ArchitecturePolicies } from "./policy.ts";
import { type ArchitecturePolicy, architecturePolicyKind } from "./resource.ts";
import { createArchitectureReview } from "./review.ts";
import { type ArchitectureProgress, describePolicy } from "./status.ts";
import { ArchitectureNodeTally, ArchitectureTally } from "./tally.ts";
import { ArchitectureWatches } from "./watches.ts";

export interface ImageFlags {
  /** How Berth reaches registries. */
  readonly registries: RegistrySettings;
  /** The user agent in requests to registries: `berth/1.2.3`. */
  readonly userAgent: string;
}

export const architecture: NodeCapability<ImageFlags, ImagesOnce> = {
  name: ARCHITECTURE,
  kinds: [architecturePolicyKind, imageRegistriesKind],
  admission: [architectureReviews],
  changes: {
    fields: [
      { resource: pods, paths: ["spec.schedulingGates", "spec.tolerations", "spec.affinity.nodeAffinity"] },
      { resource: daemonSets, paths: ["spec.template.spec.tolerations", "spec.template.spec.affinity"] },
    ],
    schedulingGates: [ARCHITECTURE_GATE],
    conditions: [ARCHITECTURE_CONDITION],
  },
  restartsPods: true,
  fields: architectureFields,
  permissions: architecturePermissions,
  once: (images) => onceCapability(architectureRules, architectureOnce(images)),
  wire,
};

/** Berth decides once about all changes within this time: a new pod changes several times. Milliseconds. */
const POD_COALESCE_MS = 20;

function wire(host: NodeHost & ImageFlags): Wired {
  const { client, cluster, nodes, daemonSets: sets, clock, log, metrics } = host;
  const { namespace: ownNamespace } = host;
  const images = createImageLibrary(host);
  const architectureMetrics = createArchitectureMetrics(metrics);
  const inForce = (): ArchitecturePolicies | undefined => documents.inForce;
  const isIdle = (): boolean => {
    const policies = documents.inForce;
    return policies?.policies.length === 0 && policies.policy.isUndecided !== true;
  };

  const podSource = createKeySource(() => beginning(watches.pods.list()));
  const setSource = createKeySource(() => beginning(sets.list()));
  const keysOf = (found: Iterable<Parameters<typeof keyOf>[1]>): ObjectKey[] =>
    Array.from(found, (object) => keyOf(cluster, object));
  /** Objects deleted before this replica became leader produce no event, so the pass must not wait for them. */
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
    return policies && { policies, namespaceLabels, ownNamespace, observations: images, now: clock.now() };
  };
  /** Each replica answers reviews from its own memory, so it looks up the images of all pods that it sees. */
  const lookUp = (found: Iterable<Pod>): void => {
    const known = context();
    if (known === undefined) return;
    for (const pod of found) for (const want of wantedFor(known, pod)) images.want(want);
  };
  /** Pods that this replica has decided about, as `podName`. */
  const looked = new Set<string>();
  const isPlacedNow = (pod: Pod): boolean => isPlaced(pod, taintKeys(inForce() ?? { policies: [] }));
  const watches = new ArchitectureWatches({
    ...host,
    onPod(pod) {
      // A pod that the webhook has placed needs no second decision, unless this replica has decided about it before.
      if (looked.has(podName(pod)) || !isPlacedNow(pod)) podSource.ask([keyOf(cluster, pod)], "high");
    },
    onPodChange(change) {
      admission.seen(change);
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
  const nodeCounts = new NodeCounts({ nodes, tally: nodeTally, onDone: () => review.ask() });
  const pass = new Pass({ all: () => workloads(), onDone: () => review.ask() });
  /** All workloads to cover. Without taint keys it does not wait for the watches. */
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
    nodesLooked: () => nodeCounts.done,
  });
  const review = createArchitectureReview({
    policies: inForce,
    tainting: (rule) => bootstraps.tainting(rule),
    images,
    onTainting: host.recheckAll,
    onStatus: () => documents.askAll(),
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
      // Queue the pods, so that the controller drops their state when their watch ends.
      if (!needed) podSource.ask(keysOf(watches.pods.list()));
      wantWatches();
    },
    clock,
    log,
  });
  const namespaceLabels = (name: string) => watches.namespaceLabels(name);
  const rules = { policies: inForce, observations: images, demand: images, observer, ownNamespace, clock };
  const podController: Controller = createObjectController({
    ...host,
    ...podRules({
      ...rules,
      namespaceLabels: (name) => namespaceLabels(name) ?? undefined,
      report: architectureMetrics,
      looked,
    }),
    name: "architecture-pods",
    objects: watches.pods,
    sources: [podSource],
    queue: { coalesceMs: POD_COALESCE_MS },
  });
  const setController: Controller = createObjectController({
    ...host,
    ...daemonSetRules({
      ...rules,
      namespaceLabels,
      isTainting: (keys) =>
        inForce()?.policies.some(
          ({ rule, spec }) => keys.includes(spec.taint.key) && bootstraps.tainting(rule),
        ) ?? false,
    }),
    name: "architecture-daemonsets",
    objects: sets,
    sources: [setSource],
  });
  const progressOf = (rule: string): ArchitectureProgress | undefined => {
    const bootstrap = bootstraps.state(rule);
    const policy = inForce()?.policies.find((it) => it.rule === rule);
    return (
      bootstrap &&
      policy && {
        bootstrap,
        taintedNodes: nodeCounts.of(rule)?.tainted,
        uncovered: pass.done ? tally.uncovered(policy.spec.taint.key) : undefined,
        pods: pass.done ? tally.pods(rule) : undefined,
      }
    );
  };
  const documents = host.documents({
    rules: architectureRules,
    capability: ARCHITECTURE,
    onChange(policies) {
      architectureMetrics.taken(policies.policies.length, policies.faults.length);
      pass.begin();
      leftovers.policiesChanged(policies.policies.length);
      // Queue all objects before their watch ends: those that Berth no longer watches must drop out of the counts.
      askAll();
      // Without policies, Berth first releases the pods that its gate holds. Only then the watches end.
      if (!isIdle()) wantWatches();
      review.ask();
      admission.changed();
      host.recheckAll();
    },
    onKnown: () => nodeCounts.check(),
    decide: (policy: ArchitecturePolicy, result, rule) =>
      describePolicy({ policy, result, progress: progressOf(rule), admission: admission.state() }),
  });
  const answers = {
    namespaceLabels: (name: string) => watches.namespaceLabels(name) ?? undefined,
    ownNamespace,
    observations: images,
    now: () => clock.now(),
    onPod: (result: Parameters<typeof architectureMetrics.admitted>[0]) =>
      architectureMetrics.admitted(result),
  };
  const admission = host.review({
    rules: bindAdmission(architectureAdmission(answers), inForce),
    onChange: () => documents.askAll(),
  });
  sets.subscribe({
    onSynced: () => askAll(),
    onVersion: ({ object }) => setSource.ask([keyOf(cluster, object)], "high"),
  });
  // Unscheduled pods and namespaces are read while a policy is in force.
  host.add([...watches.components, ...images.always], "caches");
  host.add(
    [review.component, leftovers.component, podController, setController, ...images.elected],
    "elected",
  );
  return {
    capability: bindArchitecture({ policies: inForce, tainting: (rule) => bootstraps.tainting(rule) }),
    observer: nodeCounts,
  };
}
