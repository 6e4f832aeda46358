/** Wires the components of a running Berth that serve architecture policies. */
import { bindAdmission } from "@berth/host";
import { daemonSets, type Pod, pods } from "@berth/kube";
import { type Change, keyOf } from "@berth/runtime";
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
import { architectureGauges, createArchitectureMetrics, measureWorkloads } from "./metrics.ts";
import { architectureOnce } from "./once.ts";
import { architecturePermissions } from "./permissions.ts";
import { ARCHITECTURE, type ArchitecturePolicies } from "./policy.ts";
import { keepReading } from "./reading.ts";
import { type ArchitecturePolicy, architecturePolicyKind } from "./resource.ts";
import { createArchitectureReview } from "./review.ts";
import { describePolicy, progressOf } from "./status.ts";
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
  const { nodes, metrics, clock } = host;
  const images = createImageLibrary(host);
  const report = createArchitectureMetrics(metrics);
  const policies = (): ArchitecturePolicies | undefined => documents.inForce;
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
    onTainting: host.recheckAll,
    onStatus,
    onOpen: (keys) => workloads.ask(keys),
  });
  const following = { observer: review, onChange, onPod: (it: Change<Pod>) => admission.seen(it) };
  const workloads = createWorkloads({ ...host, ...following, images, report, policies, tainting });
  const { tally, pass } = workloads;
  const bootstraps = createBootstraps({
    policies,
    workloads: tally,
    nodes: nodeTally,
    workloadsLooked: () => pass.done,
    nodesLooked: () => nodeCounts.done,
  });
  measureWorkloads(metrics, tally, nodeTally);
  const reading = keepReading({ ...host, policies, workloads, images });
  const documents = followNodeDocuments(host, {
    rules: architectureRules,
    capability: ARCHITECTURE,
    gauges: architectureGauges,
    count: (inForce) => inForce.policies.length,
    faults: (inForce) => inForce.faults,
    counts: nodeCounts,
    onChange(inForce) {
      pass.begin();
      reading.changed(inForce);
      review.ask();
      admission.changed();
    },
    decide: (policy: ArchitecturePolicy, result, rule) =>
      describePolicy({
        policy,
        result,
        progress: progressOf(rule, bootstraps, nodeCounts, workloads),
        admission: admission.state(),
      }),
  });
  const answers = {
    ...workloads.known,
    architectureOf: (name: string) =>
      nodes.get(keyOf(host.cluster, { metadata: { name } }))?.status?.nodeInfo?.architecture || undefined,
    now: () => clock.now(),
    onPod: report.admitted,
  };
  const rules = architectureAdmission(answers);
  const admission = host.review({ rules: bindAdmission(rules, policies), onChange: onStatus });
  host.add([...workloads.views.components, ...images.always], "caches");
  host.add([review.component, reading.component, ...workloads.controllers, ...images.elected], "elected");
  return { capability: bindArchitecture({ policies, tainting }), observer: nodeCounts };
}
