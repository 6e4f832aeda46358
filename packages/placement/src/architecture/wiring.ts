/** Wires the components of a running Berth that serve architecture policies. */
import { bindAdmission, labelsIn } from "@berth/host";
import { daemonSets, pods } from "@berth/kube";
import { followNodeDocuments } from "../node/documents.ts";
import { onceCapability } from "../node/once-capability.ts";
import { NodeCounts } from "../node/pass.ts";
import type { NodeCapability, NodeHost, Wired } from "../node/wired.ts";
import { architectureAdmission, architectureReviews } from "./admission.ts";
import { createBootstraps } from "./bootstrap.ts";
import { architectureFields, bindArchitecture } from "./capability.ts";
import { architectureRules } from "./compile.ts";
import { ARCHITECTURE_CONDITION, ARCHITECTURE_GATE } from "./document.ts";
import { imageRegistriesKind } from "./image-registries.ts";
import { createImageLibrary, type RegistrySettings } from "./images/image-library.ts";
import type { ImagesOnce } from "./images/once.ts";
import { createLeftovers } from "./leftovers.ts";
import { architectureGauges, createArchitectureMetrics, measureWorkloads } from "./metrics.ts";
import { architectureOnce } from "./once.ts";
import { architecturePermissions } from "./permissions.ts";
import { ARCHITECTURE, type ArchitecturePolicies } from "./policy.ts";
import { type ArchitecturePolicy, architecturePolicyKind } from "./resource.ts";
import { createArchitectureReview } from "./review.ts";
import { type ArchitectureProgress, describePolicy } from "./status.ts";
import { ArchitectureNodeTally } from "./tally.ts";
import { createWorkloads } from "./workloads.ts";

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

function wire(host: NodeHost & ImageFlags): Wired {
  const { nodes, metrics, clock, namespace: ownNamespace, recheckAll } = host;
  const images = createImageLibrary(host);
  const report = createArchitectureMetrics(metrics);
  const policies = (): ArchitecturePolicies | undefined => documents.inForce;
  const isIdle = (): boolean =>
    documents.inForce?.policies.length === 0 && documents.inForce.policy.isUndecided !== true;
  const tainting = (rule: string): boolean => bootstraps.tainting(rule);
  const onChange = (): void => review.ask();
  const onStatus = (): void => documents.askAll();
  const nodeTally = new ArchitectureNodeTally(onChange);
  const nodeCounts = new NodeCounts({ nodes, tally: nodeTally, onDone: onChange });
  const review = createArchitectureReview({
    ...host,
    policies,
    tainting,
    images,
    onTainting: recheckAll,
    onStatus,
    onOpen: (keys) => workloads.ask(keys),
  });
  const onPod = (change: Parameters<typeof admission.seen>[0]): void => admission.seen(change);
  const workloads = createWorkloads({
    ...host,
    images,
    report,
    policies,
    tainting,
    observer: review,
    onChange,
    onPod,
  });
  const { tally, pass, views } = workloads;
  const bootstraps = createBootstraps({
    policies,
    workloads: tally,
    nodes: nodeTally,
    workloadsLooked: () => pass.done,
    nodesLooked: () => nodeCounts.done,
  });
  const progressOf = (rule: string): ArchitectureProgress | undefined => {
    const state = bootstraps.state(rule);
    return (
      state && {
        bootstrap: state,
        taintedNodes: nodeCounts.of(rule)?.tainted,
        uncovered: pass.done ? tally.uncovered(state.key) : undefined,
        pods: pass.done ? tally.pods(rule) : undefined,
      }
    );
  };
  measureWorkloads(metrics, tally, nodeTally);
  let isLingering = false;
  const want = (): void => {
    const { policies: inForce = [] } = documents.inForce ?? {};
    views.want({ policies: inForce, isLingering });
    if (inForce.length > 0) images.wake();
  };
  const leftovers = createLeftovers({
    ...host,
    isIdle,
    gated: () => (views.pods.synced ? views.pods.byIndex("gated", "gated") : undefined),
    onLinger(needed) {
      // Queue the pods, so that the controller drops their state when their watch ends.
      if (!needed) workloads.ask({ pods: views.pods.keys() });
      isLingering = needed;
      want();
    },
  });
  const documents = followNodeDocuments(host, {
    rules: architectureRules,
    capability: ARCHITECTURE,
    gauges: architectureGauges,
    count: (inForce) => inForce.policies.length,
    faults: (inForce) => inForce.faults,
    counts: nodeCounts,
    onChange(inForce) {
      pass.begin();
      leftovers.policiesChanged(inForce.policies.length);
      // Queue all objects before their watch ends: those that Berth no longer watches must drop out of the counts.
      workloads.askAll();
      // Without policies, Berth first releases the pods that its gate holds. Only then the watches end.
      if (!isIdle()) want();
      review.ask();
      admission.changed();
    },
    decide: (policy: ArchitecturePolicy, result, rule) =>
      describePolicy({ policy, result, progress: progressOf(rule), admission: admission.state() }),
  });
  const namespaceLabels = labelsIn(views.namespaces);
  const rules = architectureAdmission({
    namespaceLabels: (name) => namespaceLabels(name) ?? undefined,
    ownNamespace,
    observations: images,
    now: () => clock.now(),
    onPod: (result) => report.admitted(result),
  });
  const admission = host.review({ rules: bindAdmission(rules, policies), onChange: onStatus });
  host.add([...views.components, ...images.always], "caches");
  host.add([review.component, leftovers.component, ...workloads.controllers, ...images.elected], "elected");
  return { capability: bindArchitecture({ policies, tainting }), observer: nodeCounts };
}
