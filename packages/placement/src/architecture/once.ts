/** Architecture policies in a command, which reads once and does not watch. */
import { labelsIn, readViews } from "@berth/host";
import type { DaemonSet, Pod } from "@berth/kube";
import { findCondition } from "@berth/runtime";
import { reasons } from "../api/reasons.ts";
import type { BoundCapability } from "../node/capability.ts";
import type { ExplainAt, LookAt, NodeOnce, PlanAt, PodAt } from "../node/once.ts";
import { ownedMarks, recordOf } from "../node/record.ts";
import { type ArchitecturePhase, bindArchitecture } from "./capability.ts";
import { architectureClean } from "./clean.ts";
import { taintKeys } from "./compile.ts";
import { compareImages, contradictionOf, explainPod, type PodExplanation } from "./explain.ts";
import { type ArchitectureForecast, forecastArchitecture } from "./forecast.ts";
import { governing } from "./govern.ts";
import {
  type ImageKnowledge,
  type ImageObservations,
  type ImageQuestion,
  unreadImages,
} from "./image-observations.ts";
import { type ImagesOnce, readImages } from "./images/once.ts";
import type { ArchitecturePolicies } from "./policy.ts";
import { type ArchitectureReading, architectureReads } from "./reads.ts";
import type { ArchitecturePolicy } from "./resource.ts";
import {
  formatArchitecturePlan,
  formatContradiction,
  formatNodeArchitecture,
  formatPod,
  type NodeArchitecture,
} from "./show.ts";
import { judge, wantsOf } from "./verdict.ts";

export function architectureOnce(images: ImagesOnce): NodeOnce<ArchitecturePolicies> {
  return {
    ...architectureClean,
    async plan(policies, at) {
      const forecast = await forecastOf(policies, at, images);
      const tainting = new Set(
        forecast?.policies
          .filter(({ bootstrap }) => bootstrap.phase === "Tainting")
          .map(({ policy }) => policy),
      );
      const isTainting = (rule: string): boolean => tainting.has(rule);
      return {
        capability: bindArchitecture({ policies: () => policies, tainting: isTainting }),
        section: () =>
          forecast && {
            data: { architecture: forecast },
            blocks: (style) => [formatArchitecturePlan(forecast, style)],
            isChanging: forecast.pods.length + forecast.daemonSets.length > 0,
          },
      };
    },
    async explain(policies, at) {
      const { capability, said } = standOf(policies, at);
      const contradiction = policies?.policies.length ? contradictionOf(at.node) : undefined;
      return {
        capability,
        section: () => ({
          data: policies === undefined ? {} : { architecture: said, ...(contradiction && { contradiction }) },
          blocks: (style) => [
            ...said.map((it) => formatNodeArchitecture(it, style)),
            ...(contradiction ? [formatContradiction(contradiction, style)] : []),
          ],
        }),
      };
    },
    async explainPod(policies, at) {
      const explanation = await explanationOf(policies, at, images);
      const hasPolicies = policies !== undefined && policies.policies.length > 0;
      return { data: { ...explanation }, blocks: (style) => [formatPod(explanation, style, hasPolicies)] };
    },
    async placePod(policies, at, on) {
      const explained = await explanationOf(policies, { ...at, nodes: [on] }, images);
      return compareImages(explained, on);
    },
  };
}

/** Where the images of the pod run, by registry and policy. */
async function explanationOf(
  policies: ArchitecturePolicies | undefined,
  { run, owned, pod, nodes: all }: PodAt,
  images: ImagesOnce,
): Promise<PodExplanation> {
  const { namespaces: read } = architectureReads;
  const asked: ArchitectureReading = { policies: [], isLingering: true };
  const { namespaces } = await readViews({ namespaces: read }, asked, { run, owned });
  const found = labelsIn(namespaces)(pod.metadata?.namespace ?? "");
  const namespaceLabels = found === null ? {} : found;
  const governed = { policies, namespaceLabels: () => namespaceLabels };
  return explainPod({
    pod,
    policies,
    namespaceLabels,
    observations: await viewImages([pod], governed, { run, owned, images }),
    nodes: all,
    now: run.clock.now(),
    ownNamespace: await run.ownNamespace(),
  });
}

/** The input that decides which policy governs a pod. */
interface Governing {
  readonly policies: ArchitecturePolicies | undefined;
  readonly namespaceLabels: (namespace: string) => Readonly<Record<string, string>> | undefined;
}

type Looking = Pick<LookAt, "run" | "owned">;

/** Like a running Berth, asks no registry if the policy or pod gives the architectures, or no policy governs it. */
async function viewImages(
  specs: readonly Pick<Pod, "metadata" | "spec">[],
  { policies, namespaceLabels }: Governing,
  { run, owned, images }: Looking & { readonly images: ImagesOnce },
): Promise<ImageObservations> {
  const wanted = new Map<string, ImageQuestion>();
  const context = { policies: policies?.policies ?? [], ownNamespace: await run.ownNamespace() };
  for (const { metadata, spec } of specs) {
    if (spec === undefined) continue;
    const { namespace = "", labels, annotations = {} } = metadata ?? {};
    const policy = governing(context, { namespace, namespaceLabels: namespaceLabels(namespace), labels });
    const verdict = judge({ namespace, annotations, spec, policy }, unreadImages, { now: run.clock.now() });
    for (const question of wantsOf(verdict)) wanted.set(JSON.stringify(question), question);
  }
  let library: Promise<ImageObservations> | undefined;
  const known = new Map<string, ImageKnowledge>();
  for (const [text, question] of wanted) {
    const look = async (): Promise<ImageKnowledge> => {
      library ??= readImages([...wanted.values()], images, { run, owned });
      return (await library).look(question);
    };
    const { image: name } = question;
    const message = `the snapshot does not hold image ${name}: it holds those of pods that wait for a node`;
    const unasked: ImageKnowledge = { state: "failed", name, reason: reasons.SourceNotRead, message };
    known.set(text, await run.ask(`image ${text}`, look, unasked));
  }
  return { look: (question) => known.get(JSON.stringify(question)) ?? unreadImages.look(question) };
}

/** Uses the statuses of the policies, and asks no registry. */
function standOf(
  policies: ArchitecturePolicies | undefined,
  { node, run, statusOf }: ExplainAt,
): { readonly capability: BoundCapability; readonly said: readonly NodeArchitecture[] } {
  const view = { node, owned: ownedMarks(recordOf(node), run.installation) };
  const bind = (tainting: (rule: string) => boolean): BoundCapability =>
    bindArchitecture({ policies: () => policies, tainting });
  const { outcomes = [] } = bind(() => false).contribute(view, run.clock.now()).decision;
  const phases = new Map(outcomes.map(({ rule, phase }) => [rule, phase as ArchitecturePhase]));
  const { architecture = "" } = node.status?.nodeInfo ?? {};
  const statusIs = (rule: string): PolicyStatus | undefined => statusOf(rule) as PolicyStatus | undefined;
  return {
    capability: bind((rule) => statusIs(rule)?.phase === "Tainting" || phases.get(rule) === "Tainted"),
    said: [...phases].map(([policy, phase]): NodeArchitecture => {
      const key = policies?.policies.find(({ rule }) => rule === policy)?.spec.taint.key ?? "";
      const status = statusIs(policy);
      const taint = `${key}${architecture === "" ? "" : `=${architecture}`}:NoSchedule`;
      const message = findCondition(status?.conditions, "Tainting")?.message;
      return Object.assign(
        { policy, taint, node: phase },
        status?.phase !== undefined && { phase: status.phase },
        message !== undefined && { message },
      );
    }),
  };
}

type PolicyStatus = NonNullable<ArchitecturePolicy["status"]>;

/**
 * Reads the unscheduled pods, DaemonSets and namespaces of the cluster, and the facts about their images. `undefined`
 * without policies, or without permission to read one of these.
 */
async function forecastOf(
  policies: ArchitecturePolicies | undefined,
  at: PlanAt,
  images: ImagesOnce,
): Promise<ArchitectureForecast | undefined> {
  if (policies === undefined || policies.policies.length === 0) return undefined;
  const isTainting = taintKeys(policies).length > 0;
  const { run, owned } = at;
  const views = await readViews(architectureReads, policies, at);
  if (!views.isRead) return undefined;
  const found = [...views.pods.list()];
  const sets = [...views.daemonSets.list()];
  const standing = isTainting ? standingRules(policies, at) : new Set<string>();
  const governed = {
    policies,
    namespaceLabels: (name: string) => labelsIn(views.namespaces)(name) ?? undefined,
  };
  return forecastArchitecture({
    ...governed,
    pods: found,
    daemonSets: sets,
    observations: await viewImages([...found, ...sets.map(asPod)], governed, { run, owned, images }),
    standing: (rule) => standing.has(rule),
    now: run.clock.now(),
    ownNamespace: await run.ownNamespace(),
  });
}

/** The pod that the template of a DaemonSet describes. */
function asPod({ metadata, spec }: DaemonSet): Pick<Pod, "metadata" | "spec"> {
  const { namespace = "" } = metadata ?? {};
  const { metadata: made, spec: template } = spec?.template ?? {};
  return { metadata: { ...made, namespace }, ...(template && { spec: template }) };
}

/** Policies whose taint a node carries as theirs. Their bootstrap is over. */
function standingRules(policies: ArchitecturePolicies, { run, nodes }: PlanAt): ReadonlySet<string> {
  const capability = bindArchitecture({ policies: () => policies, tainting: () => false });
  const standing = new Set<string>();
  for (const node of nodes()) {
    const view = { node, owned: ownedMarks(recordOf(node), run.installation) };
    for (const { rule, phase } of capability.contribute(view, run.clock.now()).decision.outcomes ?? [])
      if (phase === "Tainted") standing.add(rule);
  }
  return standing;
}
