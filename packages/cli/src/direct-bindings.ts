/** Pods that name a held node without tolerating its taint are refused: what answers, what it reads, and who asks. */

import { InformerSet, pick } from "@berth/host";
import {
  type KubeClient,
  type Node,
  type Pod,
  type PodSpec,
  pods,
  validatingWebhookConfigurations,
} from "@berth/kube";
import {
  admitDirectBinding,
  DIRECT_BINDING_PATH,
  directBindingLabels,
  directBindingWebhook,
  type GateJudgement,
  type Gates,
  reasons,
  refusingGates,
  UNSCHEDULED,
} from "@berth/placement";
import {
  type Clock,
  type ClusterName,
  type Component,
  keyOf,
  type Lister,
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

interface Surroundings {
  readonly client: KubeClient;
  readonly cluster: ClusterName;
  readonly gates: () => Gates | undefined;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
}

export interface DirectBindings {
  readonly webhooks: WebhookOwner;
  /** Pods without a node, for their tolerations: watched while a gate refuses, so that a binding costs no request. */
  readonly watch: Component;
  gatesChanged(): void;
}

/** Other gates than these ask for nothing here. */
const isNeeded = (gates: Gates): boolean => refusingGates(gates).length > 0;

const ALL = "all";
const unscheduled = { key: ALL, scope: { fieldSelector: UNSCHEDULED }, project: slimPod };

/** Every replica answers, from memory alone. What it does not know it does not refuse. */
export function createDirectBindings(
  around: Surroundings & { readonly nodes: Pick<Lister<Node>, "get"> },
): DirectBindings {
  const { cluster, gates, nodes } = around;
  const found = new InformerSet<Pod>({
    ...around,
    name: "unscheduled-pods-of-gates",
    resource: pods,
    onChange: () => {},
    onSynced: () => {},
  });
  const sight = {
    node: (name: string) => nodes.get(keyOf(cluster, { metadata: { name } })),
    pod: (namespace: string, name: string) =>
      found.get(ALL)?.get(keyOf(cluster, { metadata: { namespace, name } })),
  };
  return {
    webhooks: {
      handlers: {
        [DIRECT_BINDING_PATH](request) {
          const known = gates();
          if (known === undefined) throw new Error("the startup gates have not been read yet");
          return admitDirectBinding(known, request, sight);
        },
      },
      isReady: () => gates() !== undefined,
    },
    watch: found,
    gatesChanged() {
      const known = gates();
      if (known !== undefined) found.want(isNeeded(known) ? [unscheduled] : []);
    },
  };
}

/** The type promises more of a spec: none of it is read. */
function slimPod({ metadata, spec }: Pod): Pod {
  return {
    ...(metadata && {
      metadata: pick(metadata, ["name", "namespace", "uid", "resourceVersion", "ownerReferences"]),
    }),
    ...(spec && { spec: pick(spec, ["tolerations"]) as PodSpec }),
  };
}

export interface DirectBindingAdmission {
  /** Whether the API server asks; `undefined` while that is not known, or no gate wants it. */
  state(): GateJudgement | undefined;
  /** The gates, or the webhook server, say something else. */
  changed(): void;
  /** What the leader runs: it keeps the webhook configuration. */
  readonly elected: readonly Component[];
}

export function createDirectBindingAdmission(
  settings: AdmissionSettings,
  around: Surroundings & {
    readonly installation: string;
    readonly webhook: WebhookServer;
    readonly webhooks: WebhookOwner;
    /** `state` may say something else. */
    readonly onChange: () => void;
  },
): DirectBindingAdmission {
  const { gates, installation, webhook, webhooks, clock, onChange } = around;
  const { spec, namespace } = settings;
  const unasked = whyUnasked(settings);
  const kept = createKeptWebhook({
    ...around,
    name: "direct-binding",
    resource: validatingWebhookConfigurations,
    selector: directBindingLabels({ installation }),
    owner: webhooks,
    inForce: gates,
    isNeeded: (inForce) => unasked === undefined && isNeeded(inForce),
    desired: (_, ca) =>
      directBindingWebhook({
        installation,
        client: webhook.address,
        ca,
        failurePolicy: spec.podFailurePolicy ?? "Ignore",
        ...(namespace !== undefined && { namespace }),
      }),
  });
  const state = (): GateJudgement | undefined => {
    const known = gates();
    if (known === undefined || !isNeeded(known)) return undefined;
    if (unasked === undefined) return judgeAsked(kept, clock);
    const why =
      unasked === "homeless" ? "Berth's namespace does not exist" : "the mode of AdmissionServer is Off";
    const message = `${why}: the API server does not ask about pods that name a node, and none is refused`;
    return { ready: false, reason: reasons.AdmissionOff, message };
  };
  return {
    state,
    changed() {
      kept.changed();
      onChange();
    },
    elected: [kept.component, createStateReport("direct-binding-report", { state, clock, tell: onChange })],
  };
}
