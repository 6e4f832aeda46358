/** Architecture policies as a command sees them, which looks once and does not watch. */

import { type Fault, ruleName } from "@berth/host";
import {
  type DaemonSet,
  isApiError,
  type KubeObject,
  type Node,
  namespaces,
  nodes,
  type Pod,
  pods,
} from "@berth/kube";
import {
  type ArchitectureForecast,
  type ArchitecturePhase,
  type ArchitecturePolicies,
  type ArchitecturePolicy,
  architectureRules,
  type BoundCapability,
  bindArchitecture,
  createImageLibrary,
  forecastArchitecture,
  governing,
  type ImageQuestion,
  type ImageSight,
  imageRegistriesKind,
  imageUses,
  judge,
  ownedMarks,
  recordOf,
  slimPodMetadata,
  slimPodSpec,
  taintKeys,
  wantsOf,
} from "@berth/placement";
import { clusterName, createMetricsRegistry, createSilentLogger, findCondition, sleep } from "@berth/runtime";
import { UNSCHEDULED } from "./architecture-watches.ts";
import { assembleReadDocuments, fetchClusterDocuments } from "./document-session.ts";
import { listDaemonSets } from "./gate-session.ts";
import { readRegistrySettings } from "./registry-settings.ts";
import { type RuleFiles, type Session, unlessForbidden } from "./session.ts";
import { findStateNamespace } from "./state-namespace.ts";
import type { Surroundings } from "./surroundings.ts";
import { VERSION } from "./version.ts";

export interface ArchitectureViewOptions {
  readonly session: Session;
  readonly surroundings: Surroundings;
  readonly files: Pick<RuleFiles, "settings">;
  readonly installation: string;
  /** Berth's own, as `--namespace` gives it. Default that of a pod, else `berth-system`. */
  readonly namespace?: string | undefined;
}

/** How long images are waited for that no running Berth has looked up. Milliseconds. */
const PATIENCE_MS = 20_000;
const LOOK_MS = 50;

/** By whom the pods are governed. */
export interface Governing {
  readonly policies: ArchitecturePolicies | undefined;
  readonly namespaceLabels: (namespace: string) => Readonly<Record<string, string>> | undefined;
}

/**
 * What is known of the images of these pods: what a running Berth has kept, and the rest asked of their registries now,
 * with the rights and from the place of whoever runs the command. What does not answer in time is unknown. As a running
 * Berth does, it asks nobody where the policy or the pod has its own word, or no policy governs.
 */
export async function viewImages(
  specs: readonly Pick<Pod, "metadata" | "spec">[],
  { policies, namespaceLabels }: Governing,
  options: ArchitectureViewOptions,
): Promise<ImageSight> {
  const { session, surroundings, files, installation } = options;
  const { clock, signal } = surroundings;
  const space = await ownNamespaceOf(options);
  const library = createImageLibrary({
    client: session.client,
    cluster: clusterName("local"),
    installation,
    userAgent: `berth/${VERSION}`,
    ...(space !== undefined && { namespace: space }),
    registries: await readRegistrySettings(files.settings.specOf(imageRegistriesKind)),
    clock,
    log: createSilentLogger(),
    metrics: createMetricsRegistry(),
  });
  const questions = new Map<string, ImageQuestion>();
  const wanted = new Map<string, ImageQuestion>();
  const context = { policies: policies?.policies ?? [], ownNamespace: space };
  for (const { metadata, spec } of specs) {
    if (spec === undefined) continue;
    const { namespace = "", labels, annotations = {} } = metadata ?? {};
    const policy = governing(context, { namespace, namespaceLabels: namespaceLabels(namespace), labels });
    const verdict = judge({ namespace, annotations, spec, policy }, library, { now: clock.now() });
    for (const { question } of imageUses(spec, namespace)) questions.set(JSON.stringify(question), question);
    for (const question of wantsOf(verdict)) wanted.set(JSON.stringify(question), question);
  }
  const stop = new AbortController();
  const both = AbortSignal.any([signal, stop.signal]);
  const started = await Promise.all(library.always.map((component) => component.start(both)));
  library.wake();
  for (const question of wanted.values()) library.want(question);
  const untilMs = clock.monotonic() + PATIENCE_MS;
  const isOpen = (): boolean =>
    wanted.values().some((question) => library.look(question).state === "unknown");
  while (isOpen() && clock.monotonic() < untilMs && (await sleep(clock, LOOK_MS, signal)));
  const known = new Map([...questions].map(([text, question]) => [text, library.look(question)]));
  stop.abort();
  await Promise.all(started.map(({ ended }) => ended));
  return {
    look: (question) => known.get(JSON.stringify(question)) ?? { state: "unknown", name: question.image },
  };
}

/** `undefined` where there is none. */
export async function ownNamespaceOf({
  session,
  surroundings: { signal },
  namespace: wanted,
}: ArchitectureViewOptions): Promise<string | undefined> {
  const { client, cluster } = session;
  const { name, exists } = await findStateNamespace(client, { wanted, cluster, signal });
  return exists ? name : undefined;
}

/** Where a node stands with a policy that selects it for its taint. */
export interface NodeArchitecture {
  /** `cluster/default`. */
  readonly policy: string;
  /** `supported-arch=arm64:NoSchedule`, as it is to be; without a value while the node does not say its architecture. */
  readonly taint: string;
  readonly node: ArchitecturePhase;
  /** Of the policy, as its status says; absent for one of files. */
  readonly phase?: string;
  readonly message?: string;
}

export interface NodeArchitectureView {
  /** There is a source of policies. */
  readonly given: boolean;
  readonly capability: BoundCapability;
  readonly policies: readonly NodeArchitecture[];
  readonly faults: readonly Fault[];
}

/** Goes by what the statuses of the policies say, and asks nobody about images. */
export async function viewNodeArchitecture(
  node: Node,
  files: Pick<RuleFiles, "settings" | "hasConfig">,
  { session, surroundings, installation }: Omit<ArchitectureViewOptions, "files">,
): Promise<NodeArchitectureView> {
  const cluster = await fetchClusterDocuments(architectureRules, session, surroundings);
  const { inForce: policies, faults } = assembleReadDocuments(architectureRules, files, cluster);
  const statuses = new Map(
    [...(cluster?.objects ?? [])].map(([name, { status }]: [string, ArchitecturePolicy]) => [
      ruleName("cluster", name),
      status,
    ]),
  );
  const view = { node, owned: ownedMarks(recordOf(node), installation) };
  const now = surroundings.clock.now();
  const bind = (tainting: (rule: string) => boolean): BoundCapability =>
    bindArchitecture({ policies: () => policies, tainting });
  const { outcomes = [] } = bind(() => false).contribute(view, now).decision;
  const phases = new Map(outcomes.map(({ rule, phase }) => [rule, phase as ArchitecturePhase]));
  const { architecture = "" } = node.status?.nodeInfo ?? {};
  return {
    given: policies !== undefined,
    capability: bind((rule) => statuses.get(rule)?.phase === "Tainting" || phases.get(rule) === "Tainted"),
    policies: [...phases].map(([policy, phase]): NodeArchitecture => {
      const key = policies?.policies.find(({ rule }) => rule === policy)?.spec.taint.key ?? "";
      const status = statuses.get(policy);
      const taint = `${key}${architecture === "" ? "" : `=${architecture}`}:NoSchedule`;
      const message = findCondition(status?.conditions, "Tainting")?.message;
      return Object.assign(
        { policy, taint, node: phase },
        status?.phase !== undefined && { phase: status.phase },
        message !== undefined && { message },
      );
    }),
    faults,
  };
}

export interface ArchitectureView {
  readonly capability: BoundCapability;
  /** Absent without policies, or when pods, DaemonSets or namespaces may not be read. */
  readonly forecast?: ArchitectureForecast;
}

/** Reads the unscheduled pods, DaemonSets and namespaces of the cluster, and what their images run on. */
export async function viewArchitecture(
  policies: ArchitecturePolicies | undefined,
  options: ArchitectureViewOptions,
): Promise<ArchitectureView> {
  const { session, surroundings } = options;
  const unread = (): ArchitectureView => ({
    capability: bindArchitecture({ policies: () => policies, tainting: () => false }),
  });
  if (policies === undefined || policies.policies.length === 0) return unread();
  const isTainting = taintKeys(policies).length > 0;
  const found = await unlessForbidden("Pods", session, () => listUnscheduled(session, surroundings));
  const sets = isTainting ? await listDaemonSets(session, surroundings) : [];
  const labels = await unlessForbidden("Namespaces", session, () => listNamespaces(session, surroundings));
  if (found === undefined || sets === undefined || labels === undefined) return unread();
  const standing = isTainting ? await standingRules(policies, options) : new Set<string>();
  const governed: Governing = { policies, namespaceLabels: (name) => labels.get(name) };
  const sight = await viewImages([...found, ...sets.map(asPod)], governed, options);
  const forecast = forecastArchitecture({
    ...governed,
    policies,
    pods: found,
    daemonSets: sets,
    sight,
    standing: (rule) => standing.has(rule),
    now: surroundings.clock.now(),
    ownNamespace: await ownNamespaceOf(options),
  });
  const tainting = new Set(
    forecast.policies.filter(({ bootstrap }) => bootstrap.phase === "Tainting").map(({ policy }) => policy),
  );
  return {
    capability: bindArchitecture({ policies: () => policies, tainting: (rule) => tainting.has(rule) }),
    forecast,
  };
}

/** What the template of a DaemonSet makes. */
function asPod({ metadata, spec }: DaemonSet): Pick<Pod, "metadata" | "spec"> {
  const { namespace = "" } = metadata ?? {};
  const { metadata: made, spec: template } = spec?.template ?? {};
  return { metadata: { ...made, namespace }, ...(template && { spec: template }) };
}

async function listUnscheduled({ client }: Session, { signal }: Surroundings): Promise<readonly Pod[]> {
  const found: Pod[] = [];
  const scope = { fieldSelector: UNSCHEDULED, signal, project: slimPod };
  for await (const { items } of client.pages(pods, scope)) found.push(...items);
  return found;
}

function slimPod({ metadata, spec }: Pod): Pod {
  return {
    ...(metadata && { metadata: slimPodMetadata(metadata) }),
    ...(spec && { spec: slimPodSpec(spec) }),
    status: { phase: "Pending" },
  };
}

type LabelsByName = ReadonlyMap<string, Readonly<Record<string, string>>>;

async function listNamespaces({ client }: Session, { signal }: Surroundings): Promise<LabelsByName> {
  const found = new Map<string, Readonly<Record<string, string>>>();
  for await (const { items } of client.pages(namespaces, { metadataOnly: true, signal }))
    for (const { metadata } of items as readonly KubeObject[])
      found.set(metadata?.name ?? "", metadata?.labels ?? {});
  return found;
}

/** Policies whose taint stands on some node as theirs: their bootstrap is over. */
async function standingRules(
  policies: ArchitecturePolicies,
  { session: { client }, surroundings, installation }: ArchitectureViewOptions,
): Promise<ReadonlySet<string>> {
  const { signal, clock } = surroundings;
  const capability = bindArchitecture({ policies: () => policies, tainting: () => false });
  const standing = new Set<string>();
  for await (const { items } of client.pages(nodes, { signal, project: slimNode })) {
    for (const node of items) {
      const view = { node, owned: ownedMarks(recordOf(node), installation) };
      for (const { rule, phase } of capability.contribute(view, clock.now()).decision.outcomes ?? [])
        if (phase === "Tainted") standing.add(rule);
    }
  }
  return standing;
}

/** What says where a node stands with a policy, and whether a pod can go there. */
export function slimNode({ metadata, spec, status }: Node): Node {
  const { managedFields: _, ...kept } = metadata ?? {};
  const { nodeInfo } = status ?? {};
  return { metadata: kept, ...(spec && { spec }), status: { ...(nodeInfo && { nodeInfo }) } };
}

/** `undefined` when they may not be read, which the session notes. */
export async function readNamespaceLabels(
  name: string,
  session: Session,
  { signal }: Surroundings,
): Promise<Readonly<Record<string, string>> | undefined> {
  return unlessForbidden("Namespaces", session, async () => {
    try {
      return (await session.client.get(namespaces, { name }, { signal })).metadata?.labels ?? {};
    } catch (error) {
      if (isApiError(error, "notFound")) return {};
      throw error;
    }
  });
}
