/** What the API server asks Berth about new pods that are to wait for an agent, and the configuration by which it does. */
import { isApiError, type KubeClient, mutatingWebhookConfigurations, namespaces } from "@berth/kube";
import {
  admitWait,
  type FootprintJudgement,
  type Footprints,
  type NeedSight,
  reasons,
  waitLabels,
  waitPath,
  waitWebhook,
} from "@berth/placement";
import type {
  AdmissionAnswer,
  AdmissionContext,
  AdmissionRequest,
  Clock,
  ClusterName,
  Component,
  Logger,
  MetricsRegistry,
} from "@berth/runtime";
import { createKeptWebhook, createStateReport, judgeAsked } from "../kept-webhook.ts";
import {
  type AdmissionSettings,
  type WebhookOwner,
  type WebhookServer,
  whyUnasked,
} from "../webhook-server.ts";

export interface FootprintAnswers {
  /** Reads a namespace that is too new for its watch. */
  readonly client: Pick<KubeClient, "list">;
  readonly footprints: () => Footprints | undefined;
  readonly sight: NeedSight;
  readonly log: Logger;
}

/** How long a namespace is waited for: the API server waits 5 s for the answer. Milliseconds. */
const NAMESPACE_MS = 2_000;

/**
 * Answers from memory, but for a pod that comes with its namespace: nothing could have it wait later, so a namespace that is
 * not among those that are watched is read. While none are watched, or they cannot be read, nothing is asked of the server.
 * No pod is ever refused: one that nothing can be told of yet starts without waiting.
 */
export function footprintWebhooks({ client, footprints, sight, log }: FootprintAnswers): WebhookOwner {
  const answer = async (
    request: AdmissionRequest,
    { signal }: Pick<AdmissionContext, "signal">,
  ): Promise<AdmissionAnswer> => {
    const inForce = footprints();
    if (inForce === undefined) throw new Error("the node footprints have not been read yet");
    const { footprints: asking } = inForce;
    const arriving = unseenIsUnknown(sight);
    let said = admitWait({ footprints: asking, sight: arriving }, request);
    if (said.unknown.length > 0 && sight.namespaceLabels(request.namespace ?? "") === null) {
      const seeing = await withNamespace(arriving, request, { client, signal });
      said = admitWait({ footprints: asking, sight: seeing }, request);
    }
    const { patch, unknown } = said;
    if (unknown.length > 0)
      log.info("a new pod does not wait for an agent: it is not known yet whether it needs one", {
        namespace: request.namespace,
        footprints: unknown.join(", "),
      });
    return { allowed: true, patch };
  };
  return { handlers: { [waitPath]: answer }, isReady: () => footprints() !== undefined };
}

/** The namespace of a pod that is made is there: one that was not seen is on its way. */
function unseenIsUnknown(sight: NeedSight): NeedSight {
  return {
    driverOfClaim: (namespace, claim) => sight.driverOfClaim(namespace, claim),
    namespaceLabels: (name) => sight.namespaceLabels(name) ?? undefined,
  };
}

/** Knows the namespace of the request as well, where that can be read in time. By list: there is no right to get it. */
async function withNamespace(
  sight: NeedSight,
  { namespace = "" }: Pick<AdmissionRequest, "namespace">,
  { client, signal }: Pick<FootprintAnswers, "client"> & Pick<AdmissionContext, "signal">,
): Promise<NeedSight> {
  try {
    const fieldSelector = `metadata.name=${namespace}`;
    const read = { fieldSelector, metadataOnly: true, timeoutMs: NAMESPACE_MS, signal };
    const { items } = await client.list(namespaces, read);
    const found = items.find(({ metadata }) => metadata?.name === namespace);
    return {
      driverOfClaim: (of, claim) => sight.driverOfClaim(of, claim),
      namespaceLabels: (name) =>
        found && name === namespace ? (found.metadata?.labels ?? {}) : sight.namespaceLabels(name),
    };
  } catch (error) {
    if (!isApiError(error)) throw error;
    return sight;
  }
}

export interface FootprintAdmissionSurroundings {
  readonly client: KubeClient;
  readonly cluster: ClusterName;
  readonly installation: string;
  readonly footprints: () => Footprints | undefined;
  /** Of which `webhooks` is an owner. */
  readonly webhook: WebhookServer;
  readonly webhooks: WebhookOwner;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
  /** `state` may say something else. */
  readonly onChange: () => void;
}

export interface FootprintAdmission {
  /** Whether the API server asks; `undefined` while that is not known, or no pod is to wait by webhook. */
  state(): FootprintJudgement | undefined;
  /** Other footprints are in force, or the webhook server says something else. */
  changed(): void;
  /** What the leader runs: it keeps the webhook configuration. */
  readonly elected: readonly Component[];
}

/** Without a footprint whose pods wait by webhook, and with admission turned off, the API server is not asked. */
export function createFootprintAdmission(
  settings: AdmissionSettings,
  around: FootprintAdmissionSurroundings,
): FootprintAdmission {
  const { footprints, webhook, webhooks, installation, clock, onChange } = around;
  const { namespace } = settings;
  const unasked = whyUnasked(settings);
  // Nothing is asked for, or told, before all footprints have been read.
  const isWanted = ({ footprints: inForce, policy }: Footprints): boolean =>
    policy.isUndecided !== true && inForce.some(({ wait }) => wait !== undefined);
  const kept = createKeptWebhook({
    ...around,
    name: "footprint",
    resource: mutatingWebhookConfigurations,
    selector: waitLabels({ installation }),
    owner: webhooks,
    inForce: footprints,
    isNeeded: (inForce) => unasked === undefined && isWanted(inForce),
    desired: (inForce, ca) =>
      waitWebhook(inForce.footprints, {
        installation,
        client: webhook.address,
        ca,
        ...(namespace !== undefined && { namespace }),
      }),
  });
  const state = (): FootprintJudgement | undefined => {
    const inForce = footprints();
    if (inForce === undefined || !isWanted(inForce)) return undefined;
    if (unasked === undefined) return judgeAsked(kept, clock);
    const why = unasked === "homeless" ? "Berth's namespace does not exist" : "admission is off";
    const message = `${why}: the API server does not ask about new pods, so they do not wait for the agent`;
    return { ready: false, reason: reasons.AdmissionOff, message };
  };
  return {
    state,
    changed() {
      kept.changed();
      onChange();
    },
    elected: [
      kept.component,
      createStateReport("footprint-admission-report", { state, clock, tell: onChange }),
    ],
  };
}
