/** What the API server asks Berth about new pods that are to wait for an agent, and the configuration by which it does. */
import type { KubeClient } from "@berth/kube";
import {
  admitWait,
  type Footprints,
  type NeedSight,
  waitLabels,
  waitPath,
  waitWebhook,
} from "@berth/placement";
import type {
  AdmissionAnswer,
  AdmissionRequest,
  Clock,
  ClusterName,
  Logger,
  MetricsRegistry,
} from "@berth/runtime";
import { createKeptWebhook, type KeptWebhook } from "./kept-webhook.ts";
import {
  type AdmissionSettings,
  type WebhookOwner,
  type WebhookServer,
  whyUnasked,
} from "./webhook-server.ts";

export interface FootprintAnswers {
  readonly footprints: () => Footprints | undefined;
  readonly sight: NeedSight;
  readonly log: Logger;
}

/** Answers from memory. No pod is ever refused: one that nothing can be told of yet starts without waiting. */
export function footprintWebhooks({ footprints, sight, log }: FootprintAnswers): WebhookOwner {
  const answer = (request: AdmissionRequest): AdmissionAnswer => {
    const inForce = footprints();
    if (inForce === undefined) throw new Error("the node footprints have not been read yet");
    const { patch, unknown } = admitWait({ footprints: inForce.footprints, sight }, request);
    if (unknown.length > 0)
      log.info("a new pod does not wait for an agent: it is not known yet whether it needs one", {
        namespace: request.namespace,
        footprints: unknown.join(", "),
      });
    return { allowed: true, patch };
  };
  return { handlers: { [waitPath]: answer }, isReady: () => footprints() !== undefined };
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
}

/** Without a footprint whose pods wait by webhook, and with admission turned off, the API server is not asked. */
export function createFootprintAdmission(
  settings: AdmissionSettings,
  around: FootprintAdmissionSurroundings,
): KeptWebhook {
  const { footprints, webhook, webhooks, installation, log } = around;
  const { namespace } = settings;
  const unasked = whyUnasked(settings);
  let isTold = false;
  const tellOff = (): void => {
    if (isTold) return;
    isTold = true;
    const why = unasked === "homeless" ? "Berth's namespace does not exist" : "admission is off";
    log.warn(`${why}: new pods do not wait for their agents, as the API server does not ask about them`);
  };
  return createKeptWebhook({
    ...around,
    name: "footprint",
    selector: waitLabels({ installation }),
    owner: webhooks,
    inForce: footprints,
    isNeeded(inForce) {
      // Nothing is asked for, or told, before all footprints have been read.
      if (inForce.policy.unsettled !== undefined) return false;
      const isWanted = inForce.footprints.some(({ wait }) => wait?.inject === "Webhook");
      if (isWanted && unasked !== undefined) tellOff();
      return isWanted && unasked === undefined;
    },
    desired: (inForce, ca) =>
      waitWebhook(inForce.footprints, {
        installation,
        client: webhook.address,
        ca,
        ...(namespace !== undefined && { namespace }),
      }),
  });
}
