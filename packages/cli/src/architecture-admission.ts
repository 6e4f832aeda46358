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
  type Logger,
  type MetricsRegistry,
} from "@berth/runtime";
import { createKeptWebhook, createStateReport, judgeAsked } from "./kept-webhook.ts";
import {
  type AdmissionSettings,
  type WebhookOwner,
  type WebhookServer,
  whyUnasked,
} from "./webhook-server.ts";

/** What answers are made of. */
export interface ArchitectureAnswers {
  readonly policies: () => ArchitecturePolicies | undefined;
  readonly namespaceLabels: ArchitectureAdmission["namespaceLabels"];
  readonly ownNamespace: string | undefined;
  readonly sight: ImageSight;
  readonly now: () => number;
  /** What became of a pod that was asked about. */
  readonly onPod: (result: PodAdmission) => void;
}

/** Answers from memory, and causes no request: whoever reaches the port may ask about anything. */
export function architectureWebhooks(answers: ArchitectureAnswers): WebhookOwner {
  const { policies, namespaceLabels, ownNamespace, sight } = answers;
  const answer =
    (admit: (context: ArchitectureAdmission, question: ArchitectureQuestion) => ArchitectureAnswer) =>
    (request: AdmissionRequest): AdmissionAnswer => {
      const inForce = policies();
      if (inForce === undefined) throw new Error("the architecture policies have not been read yet");
      const now = answers.now();
      const context = { policies: inForce.policies, namespaceLabels, ownNamespace, sight, now };
      const said = admit(context, request);
      if (request.kind.kind === "Pod") answers.onPod(resultOf(said));
      return said.allowed ? said : { allowed: false, message: said.message };
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

export function createArchitectureAdmission(
  settings: AdmissionSettings,
  around: ArchitectureAdmissionSurroundings,
): ArchitectureAdmissionParts {
  const { installation, policies, webhook, webhooks, clock, log, onChange } = around;
  const { spec, namespace } = settings;
  const unasked = whyUnasked(settings);
  let isWarned = false;
  const kept = createKeptWebhook({
    ...around,
    name: "architecture",
    resource: mutatingWebhookConfigurations,
    selector: architectureLabels({ installation }),
    owner: webhooks,
    inForce: policies,
    isNeeded: (inForce) => unasked === undefined && inForce.policies.length > 0,
    desired: (inForce, ca) =>
      architectureWebhook(inForce, {
        installation,
        client: webhook.address,
        ca,
        failurePolicy: spec.podFailurePolicy ?? "Ignore",
        ...(namespace !== undefined && { namespace }),
      }),
  });
  const state = (): ArchitectureJudgement | undefined => {
    if ((policies()?.policies.length ?? 0) === 0) return undefined;
    if (unasked !== undefined) {
      const why = unasked === "homeless" ? "Berth's namespace does not exist: " : "";
      const message = `${why}the API server does not ask about new pods, so none is narrowed; those that wait for a node get tolerations`;
      return { ready: false, reason: reasons.AdmissionOff, message };
    }
    return judgeAsked(kept, clock);
  };
  return {
    state,
    policiesChanged() {
      const said = unasked === "homeless" ? state() : undefined;
      if (said !== undefined && !isWarned) {
        isWarned = true;
        log.warn(said.message, { reason: said.reason });
      }
      kept.changed();
      onChange();
    },
    webhookChanged() {
      kept.changed();
      onChange();
    },
    elected: [
      kept.component,
      createStateReport("architecture-admission-report", { state, clock, tell: onChange }),
    ],
  };
}
