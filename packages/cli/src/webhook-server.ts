/** The HTTPS server that the API server asks about new objects: one for all capabilities, there once one needs it. */
import type { KubeClient } from "@berth/kube";
import {
  type AdmissionHandler,
  type Clock,
  type Component,
  createLoopComponent,
  type Logger,
  type MetricsRegistry,
  startAdmissionServer,
  whenAborted,
} from "@berth/runtime";
import { createCertificates, serviceOf } from "./admission-webhook.ts";
import type { AdmissionServerSpec } from "./config/admission-server.ts";

export interface AdmissionSettings {
  readonly spec: AdmissionServerSpec;
  /** Where the certificates are; absent: there is no such namespace, and Berth makes none. */
  readonly namespace?: string;
  /** PEM of `spec.clientCertificateAuthority`. */
  readonly clientAuthority?: string;
  /** Of this replica, to tell the others from it. Absent: it is no pod, and alone. */
  readonly podName?: string;
}

/**
 * Why the API server does not ask about anything; `undefined` when it may. A Berth without a namespace has nowhere to keep
 * certificates: it is run from a terminal, and not asked.
 */
export function whyUnasked({ spec, namespace }: AdmissionSettings): "off" | "homeless" | undefined {
  if (spec.mode === "Off") return "off";
  const isHomeless = spec.mode === "Auto" && namespace === undefined && spec.certificates === undefined;
  return isHomeless ? "homeless" : undefined;
}

/** A capability that answers the API server. */
export interface WebhookOwner {
  /** By path: `/mutate-node`. No two owners have one path. */
  readonly handlers: Readonly<Record<string, AdmissionHandler>>;
  /** Does it know what it needs to decide? */
  readonly isReady: () => boolean;
}

export interface WebhookServerOptions {
  readonly client: KubeClient;
  readonly installation: string;
  readonly owners: readonly WebhookOwner[];
  /** `problem`, `caBundle` or both may say something else. */
  readonly onChange: () => void;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
}

/** The name of its component. */
export const WEBHOOK = "webhook";

/** Where the API server finds it, as a webhook configuration says it. */
export type WebhookAddress =
  | { readonly service: { readonly namespace: string; readonly name: string; readonly port: number } }
  | { readonly url: string };

/**
 * Every replica has one. It does not listen before the first `demand`, and from then on does to its end: whoever needs it
 * no more takes the configuration away that leads there.
 */
export interface WebhookServer {
  readonly component: Component;
  readonly address: WebhookAddress;
  /** This owner needs it; again is the same as once. */
  demand(owner: WebhookOwner): void;
  /** PEM of the authorities that its certificate is checked against; `undefined` while they are not known. */
  caBundle(): string | undefined;
  /** Why it cannot answer, for those who need it. */
  problem(): string | undefined;
}

export function createWebhookServer(
  settings: AdmissionSettings,
  options: WebhookServerOptions,
): WebhookServer {
  const { spec, clientAuthority } = settings;
  const { installation, owners, onChange, log, clock, metrics } = options;
  const certificates = createCertificates(settings, options);
  const demanded = new Set<WebhookOwner>();
  const firstDemand = Promise.withResolvers<void>();
  let isServing = false;
  const run = async (signal: AbortSignal): Promise<void> => {
    await Promise.race([firstDemand.promise, whenAborted(signal)]);
    if (signal.aborted || certificates === undefined) return whenAborted(signal);
    const running = await certificates.start(signal);
    const server = await startAdmissionServer({
      bindAddress: spec.bindAddress,
      ...(clientAuthority !== undefined && { clientAuthority }),
      certificate: () => certificates.current(),
      handlers: Object.assign({}, ...owners.map(({ handlers }) => handlers)),
      ready: () =>
        certificates.current() !== undefined && demanded.values().every((owner) => owner.isReady()),
      log,
      clock,
      metrics,
    });
    isServing = true;
    log.info("serving admission", { url: server.url });
    onChange();
    await whenAborted(signal);
    await server[Symbol.asyncDispose]();
    await running.ended;
  };
  const problem = (): string | undefined => {
    if (certificates === undefined)
      return "a webhook needs Berth's namespace, which does not exist, or a folder of certificates";
    return certificates.problem?.() ?? (isServing ? undefined : "the webhook does not listen yet");
  };
  /** Why no capability can answer: an old certificate still does when it cannot be renewed. */
  const mute = (): string | undefined => {
    const answers = isServing && certificates?.current() !== undefined;
    return demanded.size === 0 || answers ? undefined : problem();
  };
  return {
    component: createLoopComponent({ name: WEBHOOK, run, problem: mute }),
    address: spec.url === undefined ? { service: serviceOf(settings, installation) } : { url: spec.url },
    demand(owner) {
      demanded.add(owner);
      firstDemand.resolve();
    },
    caBundle: () => certificates?.caBundle(),
    problem,
  };
}
