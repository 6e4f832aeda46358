/** What the API server asks Berth about pods and DaemonSets, and the webhook configuration by which it does. */
import { type KubeClient, mutatingWebhookConfigurations } from "@berth/kube";
import {
  type ArchitectureAdmission,
  type ArchitectureAnswer,
  type ArchitectureJudgement,
  type ArchitecturePolicies,
  type ArchitectureQuestion,
  admitDaemonSet,
  admitPod,
  architectureLabels,
  architecturePaths,
  architectureWebhook,
  type ImageDemand,
  type ImageSight,
  type PodAdmission,
  reasons,
} from "@berth/placement";
import {
  type AdmissionAnswer,
  type AdmissionRequest,
  type Clock,
  type ClusterName,
  type Component,
  createObjectKeeper,
  type Logger,
  type MetricsRegistry,
  type Running,
  sleep,
  whenAborted,
} from "@berth/runtime";
import { Demand, keepOnceNeeded } from "./admission-keeping.ts";
import type { AdmissionSettings, WebhookOwner, WebhookServer } from "./webhook-server.ts";

/** What answers are made of. */
export interface ArchitectureAnswers {
  readonly policies: () => ArchitecturePolicies | undefined;
  readonly namespaceLabels: ArchitectureAdmission["namespaceLabels"];
  readonly ownNamespace: string | undefined;
  readonly sight: ImageSight;
  readonly demand: ImageDemand;
  readonly now: () => number;
  /** What became of a pod that was asked about. */
  readonly onPod: (result: PodAdmission) => void;
}

/**
 * Answers from memory. What is not known is wanted of the images of this replica, whichever it is: the leader, who holds
 * the pod, wants it as well, and each of them asks a registry once. A dry run wants nothing.
 */
export function architectureWebhooks(answers: ArchitectureAnswers): WebhookOwner {
  const { policies, namespaceLabels, ownNamespace, sight, demand } = answers;
  const answer =
    (admit: (context: ArchitectureAdmission, question: ArchitectureQuestion) => ArchitectureAnswer) =>
    (request: AdmissionRequest): AdmissionAnswer => {
      const inForce = policies();
      if (inForce === undefined) throw new Error("the architecture policies have not been read yet");
      const now = answers.now();
      const context = { policies: inForce.policies, namespaceLabels, ownNamespace, sight, now };
      const said = admit(context, request);
      if (request.kind.kind === "Pod") answers.onPod(resultOf(said));
      if (!said.allowed) return { allowed: false, message: said.message };
      if (request.dryRun !== true) for (const want of said.wants) demand.want(want);
      return { allowed: true, patch: said.patch };
    };
  return {
    handlers: {
      [architecturePaths.pods]: answer(admitPod),
      [architecturePaths.daemonSets]: answer(admitDaemonSet),
    },
    isReady: () => policies() !== undefined,
  };
}

function resultOf(answer: ArchitectureAnswer): PodAdmission {
  if (!answer.allowed) return "refused";
  if (answer.patch.length === 0) return "unchanged";
  const isHeld = answer.patch.some(
    ({ op, path }) => op === "add" && path.startsWith("/spec/schedulingGates"),
  );
  return isHeld ? "held" : "placed";
}

export interface ArchitectureAdmissionSurroundings {
  readonly client: KubeClient;
  readonly cluster: ClusterName;
  readonly installation: string;
  readonly policies: () => ArchitecturePolicies | undefined;
  /** Of which `webhooks` is an owner. */
  readonly webhook: WebhookServer;
  readonly webhooks: WebhookOwner;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
  /** `state` may say something else. */
  readonly onChange: () => void;
}

export interface ArchitectureAdmissionParts {
  /** Whether the API server asks; `undefined` while that is not known, or there is no policy. */
  state(): ArchitectureJudgement | undefined;
  policiesChanged(): void;
  webhookChanged(): void;
  /** What the leader runs: it keeps the webhook configuration. */
  readonly elected: readonly Component[];
}

/** How long setting up may take before it counts as failed. Milliseconds. */
const EARLY_MS = 10_000;

export function createArchitectureAdmission(
  { spec, namespace }: AdmissionSettings,
  around: ArchitectureAdmissionSurroundings,
): ArchitectureAdmissionParts {
  const { client, cluster, installation, policies, webhook, webhooks, clock, log, metrics, onChange } =
    around;
  // A Berth without a namespace has nowhere to keep certificates: it is run from a terminal, and not asked.
  const isHomeless = spec.mode === "Auto" && namespace === undefined && spec.certificates === undefined;
  const isOff = spec.mode === "Off" || isHomeless;
  const selector = architectureLabels({ installation });
  const demand = new Demand();
  let demandedMs: number | undefined;
  let isWarned = false;
  const keeper = createObjectKeeper({
    name: "architecture-webhooks",
    client,
    cluster,
    resource: mutatingWebhookConfigurations,
    selector,
    clock,
    log,
    metrics,
  });
  const [informer] = keeper.components;
  const isNeeded = (): boolean => !isOff && (policies()?.policies.length ?? 0) > 0;
  const refresh = (): void => {
    const inForce = policies();
    // A configuration for policies that are yet to be read must not be taken for left over.
    if (inForce === undefined || inForce.policy.unsettled !== undefined) return;
    if (!isNeeded()) {
      keeper.setDesired([]);
      return;
    }
    const ca = webhook.caBundle();
    if (ca === undefined) return;
    const { podFailurePolicy: failurePolicy = "Ignore" } = spec;
    const options = { installation, client: webhook.address, ca, failurePolicy };
    keeper.setDesired([
      architectureWebhook(inForce, { ...options, ...(namespace !== undefined && { namespace }) }),
    ]);
  };
  const problem = (): string | undefined => {
    if (!isNeeded()) return undefined;
    const unserved = webhook.problem();
    if (unserved !== undefined) return unserved;
    if (webhook.caBundle() === undefined)
      return "nobody says which authority the API server has to trust: put ca.crt beside the certificate";
    return keeper.problem() ?? informer.problem?.();
  };
  const state = (): ArchitectureJudgement | undefined => {
    if ((policies()?.policies.length ?? 0) === 0) return undefined;
    if (isOff) {
      const why = isHomeless ? "Berth's namespace does not exist: " : "";
      const message = `${why}the API server does not ask about new pods, so none is narrowed; those that wait for a node get tolerations`;
      return { ready: false, reason: reasons.AdmissionOff, message };
    }
    const why = problem();
    const isEarly = demandedMs === undefined || clock.monotonic() - demandedMs < EARLY_MS;
    if (why !== undefined)
      return isEarly ? undefined : { ready: false, reason: reasons.AdmissionFailed, message: why };
    const message = "Berth is asked about new pods";
    return { ready: true, reason: reasons.AdmissionByWebhook, message };
  };
  const hasLeftovers = async (_: undefined, signal: AbortSignal): Promise<boolean> => {
    const labelSelector = Object.entries(selector)
      .map(([key, value]) => `${key}=${value}`)
      .join(",");
    const scope = { labelSelector, limit: 1, signal };
    return (await client.list(mutatingWebhookConfigurations, scope)).items.length > 0;
  };
  /** What keeps failing is told in the end, also when nothing changes any more. */
  const tellLate = async (signal: AbortSignal): Promise<void> => {
    await Promise.race([demand.first, whenAborted(signal)]);
    await sleep(clock, EARLY_MS, signal);
    if (!signal.aborted) onChange();
    await whenAborted(signal);
  };
  return {
    state,
    policiesChanged() {
      const said = isHomeless ? state() : undefined;
      if (said !== undefined && !isWarned) {
        isWarned = true;
        log.warn(said.message, { reason: said.reason });
      }
      if (isNeeded()) {
        webhook.demand(webhooks);
        demand.note();
        demandedMs ??= clock.monotonic();
      }
      refresh();
      onChange();
    },
    webhookChanged() {
      refresh();
      onChange();
    },
    elected: [
      {
        name: "architecture-admission",
        start(signal): Promise<Running> {
          refresh();
          const pairs = () => [keeper.components];
          const prepare = () => Promise.resolve(undefined);
          const keeping = { demand, prepare, hasLeftovers, pairs, clock, log };
          const ended = Promise.all([keepOnceNeeded(keeping, signal), tellLate(signal)]);
          return Promise.resolve({ ended: ended.then(() => undefined) });
        },
        problem,
      },
    ],
  };
}
