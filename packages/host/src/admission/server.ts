/** The HTTPS server for admission reviews. All rules share one, and it starts when the first rules need it. */
import type { KubeClient } from "@berth/kube";
import {
  CertificateKeeper,
  type CertificateSource,
  type Clock,
  type Component,
  createCertificateFolder,
  createCertificateMemory,
  createLoopComponent,
  type Logger,
  type MetricsRegistry,
  startAdmissionServer,
  whenAborted,
} from "@berth/runtime";
import { baseName, type Installed, ownerLabels } from "../product.ts";
import type { WebhookAddress } from "./objects.ts";
import { reviewHandlers } from "./review.ts";
import type { AdmissionEnv, BoundRules } from "./rules.ts";
import type { AdmissionSettings } from "./settings.ts";

export interface WebhookServerOptions {
  readonly client: KubeClient;
  /** Asks what reviews need to know. Default: `client`. */
  readonly questions?: KubeClient;
  readonly env: AdmissionEnv;
  /** All rules that answer. Reviews share a path only if one call answers them together. */
  readonly rules: readonly BoundRules[];
  /** Called when `problem` or `caBundle` may return another value. */
  readonly onChange: () => void;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
}

/** Name of the component. */
export const WEBHOOK = "webhook";

/**
 * Every replica has one. It starts to listen at the first `demand` and listens until the process ends. Rules that no
 * longer need it remove their webhook configuration instead.
 */
export interface WebhookServer {
  readonly component: Component;
  readonly address: WebhookAddress;
  /** Records that these rules need the server. Repeated calls have no effect. */
  demand(rules: BoundRules): void;
  /** PEM of the authorities with which clients check its certificate. `undefined` while they are not known. */
  caBundle(): string | undefined;
  /** Why the server cannot answer. */
  problem(): string | undefined;
}

export function createWebhookServer(
  settings: AdmissionSettings,
  options: WebhookServerOptions,
): WebhookServer {
  const { spec, clientAuthority } = settings;
  const { client, questions = client, env, rules, onChange, log, clock, metrics } = options;
  const certificates = createCertificates(settings, options);
  const demanded = new Set<BoundRules>();
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
      handlers: reviewHandlers(rules, { client: questions, env, log, clock }),
      ready: () =>
        certificates.current() !== undefined && demanded.values().every(({ read }) => read() !== "unread"),
      log,
      clock,
      metrics,
    });
    isServing = true;
    log.info("serving admission", { url: server.url, bindAddress: spec.bindAddress });
    onChange();
    await whenAborted(signal);
    await server[Symbol.asyncDispose]();
    await running.ended;
  };
  const problem = (): string | undefined => {
    if (certificates === undefined)
      return "a webhook needs the namespace of this installation, which does not exist, or a url, or a folder of certificates";
    return certificates.problem?.() ?? (isServing ? undefined : "the webhook does not listen yet");
  };
  /** Why no rules get an answer. An old certificate still serves while its renewal fails. */
  const mute = (): string | undefined => {
    const answers = isServing && certificates?.current() !== undefined;
    return demanded.size === 0 || answers ? undefined : problem();
  };
  return {
    component: createLoopComponent({
      name: WEBHOOK,
      run,
      problem: mute,
      note: () => (demanded.size === 0 ? "it does not listen: nothing needs it" : undefined),
    }),
    address: spec.url === undefined ? { service: serviceOf(settings, env) } : { url: spec.url },
    demand(by) {
      demanded.add(by);
      firstDemand.resolve();
    },
    caBundle: () => certificates?.caBundle(),
    problem,
  };
}

function serviceOf(
  { spec, namespace = "" }: AdmissionSettings,
  installed: Installed,
): { readonly namespace: string; readonly name: string; readonly port: number } {
  return spec.service ?? { namespace, name: `${baseName(installed)}-webhook`, port: 443 };
}

function hostsOf(settings: AdmissionSettings, installed: Installed): readonly string[] {
  const { spec } = settings;
  if (spec.url !== undefined) return [new URL(spec.url).hostname.replace(/^\[(.*)\]$/, "$1")];
  const { namespace, name } = serviceOf(settings, installed);
  return [`${name}.${namespace}.svc`, `${name}.${namespace}.svc.cluster.local`];
}

/** Labels of the Secret in which the certificates are kept. */
export function certificateLabels(of: Installed): Readonly<Record<string, string>> {
  const { name, certificates = "admission" } = of.product;
  return { ...ownerLabels(of, certificates), "app.kubernetes.io/managed-by": name };
}

/**
 * From the configured folder, else from a Secret that Berth creates. Without a namespace Berth is a single process, and
 * needs no Secret to serve at a URL. `undefined`: mode `Off`, or neither a namespace nor a URL.
 */
function createCertificates(
  settings: AdmissionSettings,
  { client, env, clock, log, onChange }: WebhookServerOptions,
): (CertificateSource & Component) | undefined {
  const { spec, namespace } = settings;
  if (spec.mode === "Off") return undefined;
  const name = "admission-certificates";
  if (spec.certificates !== undefined)
    return createCertificateFolder({ name, path: spec.certificates, clock, log, onChange });
  const hosts = hostsOf(settings, env);
  if (namespace === undefined)
    return spec.url === undefined
      ? undefined
      : createCertificateMemory({ hosts, name, clock, log, onChange });
  const secret = { namespace, name: `${baseName(env)}-webhook-tls` };
  const labels = certificateLabels(env);
  return new CertificateKeeper({ client, secret, hosts, labels, name, clock, log, onChange });
}
