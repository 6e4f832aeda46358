/** What puts the taints of startup gates on new nodes: policies in the API server, or a webhook of ours. */
import {
  isApiError,
  type KubeClient,
  leases,
  type MutatingAdmissionPolicy,
  type MutatingAdmissionPolicyBinding,
  type MutatingWebhookConfiguration,
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  mutatingWebhookConfigurations,
  pods,
  type ServiceAccount,
  serviceAccounts,
} from "@berth/kube";
import {
  type AdmissionState,
  admissionLabels,
  admissionPolicies,
  admissionSwitch,
  admitDaemonSetRequest,
  admitNodeRequest,
  type Gates,
  reasons,
  webhookConfiguration,
} from "@berth/placement";
import {
  type AdmissionAnswer,
  type AdmissionRequest,
  CertificateKeeper,
  type CertificateSource,
  type Clock,
  type ClusterName,
  type Component,
  createCertificateFolder,
  createLoopComponent,
  createObjectKeeper,
  type Logger,
  type MetricsRegistry,
  type ObjectKeeper,
  type Running,
  sleep,
  startAdmissionServer,
  whenAborted,
} from "@berth/runtime";
import type { AdmissionServerSpec } from "./config/admission-server.ts";

export interface AdmissionSettings {
  readonly spec: AdmissionServerSpec;
  /** Where the switch and the certificates are; absent: there is no such namespace, and neither can be. */
  readonly namespace?: string;
  /** Of this replica, to tell the others from it. Absent: it is no pod, and alone. */
  readonly podName?: string;
}

export interface AdmissionSurroundings {
  readonly client: KubeClient;
  readonly cluster: ClusterName;
  readonly installation: string;
  readonly gates: () => Gates | undefined;
  readonly lease?: { readonly namespace: string; readonly name: string };
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
  /** `state` may say something else. */
  readonly onChange: () => void;
}

export interface AdmissionParts {
  /** `undefined` while it is not known, or nothing is to be done. */
  state(): AdmissionState | undefined;
  /** Other gates are in force. */
  gatesChanged(): void;
  /** What every replica runs: the webhook, and its certificates. */
  readonly always: readonly Component[];
  /** What the leader runs: it keeps policies, switch and webhook configuration. */
  readonly elected: readonly Component[];
}

type Mode = "Policy" | "Webhook" | "Off";

/** How soon a question to the server that failed is asked again. Milliseconds. */
const RETRY_MS = 5000;
/** How long setting up may take before it counts as failed. Milliseconds. */
const EARLY_MS = 10_000;
/** How often a replica that stands by looks whether anybody leads. Milliseconds. */
const LEASE_LOOK_MS = 15_000;
/** Lease durations without a renewal after which nobody leads, and nobody is going to soon. */
const STALE_LEASES = 4;

/** `berth`, and with the name of the installation any other. */
export function baseName(installation: string): string {
  return installation === "berth" ? "berth" : `berth-${installation}`;
}

export function createAdmissionParts(
  settings: AdmissionSettings,
  around: AdmissionSurroundings,
): AdmissionParts {
  return new Admission(settings, around);
}

class Admission implements AdmissionParts {
  readonly always: readonly Component[];
  readonly elected: readonly Component[];
  readonly #settings: AdmissionSettings;
  readonly #around: AdmissionSurroundings;
  readonly #certificates: (CertificateSource & Component) | undefined;
  readonly #keepers: Keepers;
  #mode: Mode | undefined;
  #serving = false;
  #decidedMs = 0;
  /** Why it is as it is, where that is a problem. */
  #fault: string | undefined;
  /** Resolves when there is something to do. */
  readonly #wanted = Promise.withResolvers<void>();
  readonly #decided = Promise.withResolvers<void>();

  constructor(settings: AdmissionSettings, around: AdmissionSurroundings) {
    this.#settings = settings;
    this.#around = around;
    this.#certificates = this.#createCertificates();
    this.#keepers = createKeepers(settings, around);
    if (settings.spec.mode === "Webhook") this.#wanted.resolve();
    this.always = [
      createLoopComponent({
        name: "admission",
        run: (signal) => this.#run(signal),
        problem: () => this.#problem(),
      }),
      ...(around.lease === undefined || settings.namespace === undefined
        ? []
        : [createLoopComponent({ name: "admission-lease", run: (signal) => this.#watchLease(signal) })]),
    ];
    this.elected = [this.#keeping()];
  }

  state(): AdmissionState | undefined {
    const gates = this.#around.gates();
    if (this.#mode === undefined || gates === undefined || gates.gates.length === 0) return undefined;
    const problem = this.#problem();
    if (problem !== undefined) {
      // Certificates are made and objects written within moments: until then nothing has failed.
      const isEarly = this.#around.clock.monotonic() - this.#decidedMs < EARLY_MS;
      return isEarly ? undefined : { works: false, reason: reasons.AdmissionFailed, message: problem };
    }
    switch (this.#mode) {
      case "Policy":
        return {
          works: true,
          reason: reasons.AdmissionByPolicy,
          message: "the API server puts the taint on new nodes",
        };
      case "Webhook":
        return { works: true, reason: reasons.AdmissionByWebhook, message: "Berth is asked about new nodes" };
      case "Off": {
        const message = "new nodes are gated after their creation, when they are idle";
        return { works: false, reason: reasons.AdmissionOff, message };
      }
    }
  }

  gatesChanged(): void {
    if ((this.#around.gates()?.gates.length ?? 0) > 0) this.#wanted.resolve();
    this.#refresh();
  }

  #problem(): string | undefined {
    if (this.#fault !== undefined) return this.#fault;
    const needed = (this.#around.gates()?.gates.length ?? 0) > 0;
    if (this.#mode === "Webhook") {
      const certificates = this.#certificates?.problem?.();
      if (certificates !== undefined) return certificates;
      if (!this.#serving) return "the webhook does not listen yet";
    }
    return needed ? this.#keepers.problem() : undefined;
  }

  #createCertificates(): (CertificateSource & Component) | undefined {
    const { spec, namespace } = this.#settings;
    const { client, installation, clock, log } = this.#around;
    if (spec.mode === "Policy" || spec.mode === "Off") return undefined;
    const name = "admission-certificates";
    const onChange = (): void => this.#refresh();
    if (spec.certificates !== undefined)
      return createCertificateFolder({ name, path: spec.certificates, clock, log, onChange });
    if (namespace === undefined) return undefined;
    const labels = { ...admissionLabels({ installation }), "app.kubernetes.io/managed-by": "berth" };
    const secret = { namespace, name: `${baseName(installation)}-webhook-tls` };
    return new CertificateKeeper({
      client,
      secret,
      hosts: hostsOf(this.#settings, installation),
      labels,
      name,
      clock,
      log,
      onChange,
    });
  }

  /** Finds out what to do once a gate asks for it, and serves the webhook if that is it. */
  async #run(signal: AbortSignal): Promise<void> {
    await Promise.race([this.#wanted.promise, whenAborted(signal)]);
    while (!signal.aborted && this.#mode === undefined) {
      this.#mode = await this.#chooseMode(signal);
      if (this.#mode === undefined) await sleep(this.#around.clock, RETRY_MS, signal);
    }
    this.#decided.resolve();
    this.#decidedMs = this.#around.clock.monotonic();
    using _later = this.#around.clock.schedule(EARLY_MS, () => this.#around.onChange());
    if (signal.aborted || this.#mode === undefined) return;
    this.#around.log.info("admission of new nodes", { mode: this.#mode });
    this.#fault = this.#lack();
    this.#refresh();
    if (this.#mode === "Webhook" && this.#certificates !== undefined)
      await this.#serve(this.#certificates, signal);
    else await whenAborted(signal);
  }

  /** `undefined`: the server would not say. */
  async #chooseMode(signal: AbortSignal): Promise<Mode | undefined> {
    const { spec, namespace } = this.#settings;
    if (spec.mode !== "Auto") return spec.mode;
    if (namespace === undefined) return "Off";
    try {
      return (await servesPolicies(this.#around.client, signal)) ? "Policy" : "Webhook";
    } catch (error) {
      if (!signal.aborted)
        this.#around.log.warn("it is not known yet how new nodes are gated", { error: String(error) });
      return undefined;
    }
  }

  #lack(): string | undefined {
    const { spec, namespace } = this.#settings;
    if (this.#mode === "Policy" && namespace === undefined)
      return "policies need Berth's namespace, which does not exist";
    if (this.#mode === "Webhook" && this.#certificates === undefined)
      return "a webhook needs Berth's namespace, which does not exist, or a folder of certificates";
    return this.#mode === "Off" && spec.mode === "Auto"
      ? "Berth's namespace does not exist, so nothing puts the taint on new nodes; they are gated afterwards, when idle"
      : undefined;
  }

  async #serve(certificates: CertificateSource & Component, signal: AbortSignal): Promise<void> {
    const { log, clock, metrics, gates } = this.#around;
    const running = await certificates.start(signal);
    const answer =
      (admit: typeof admitNodeRequest) =>
      (request: AdmissionRequest): AdmissionAnswer => {
        const known = gates();
        if (known === undefined) throw new Error("the startup gates have not been read yet");
        return { allowed: true, patch: admit(known, request) };
      };
    const server = await startAdmissionServer({
      bindAddress: this.#settings.spec.bindAddress,
      certificate: () => certificates.current(),
      handlers: {
        "/mutate-node": answer(admitNodeRequest),
        "/mutate-daemonset": answer(admitDaemonSetRequest),
      },
      ready: () => gates() !== undefined && certificates.current() !== undefined,
      log,
      clock,
      metrics,
    });
    this.#serving = true;
    log.info("serving admission", { url: server.url });
    this.#refresh();
    await whenAborted(signal);
    await server[Symbol.asyncDispose]();
    await running.ended;
  }

  #refresh(): void {
    const { gates: current, installation } = this.#around;
    const gates = current();
    const { spec, namespace } = this.#settings;
    if (this.#mode === undefined) {
      // Without gates there is nothing to choose, and whatever is left of earlier ones has to go.
      if (gates?.gates.length === 0)
        this.#keepers.want({ policies: [], bindings: [], switches: [], webhooks: [] });
      return;
    }
    if (gates === undefined) return;
    const list = this.#mode === "Policy" && namespace !== undefined ? gates : { gates: [] };
    const name = `${baseName(installation)}-startup-gate`;
    const options = {
      installation,
      failurePolicy: spec.failurePolicy,
      switch: { namespace: namespace ?? "", name },
    };
    const pairs = admissionPolicies(list, options);
    this.#keepers.want({
      policies: pairs.map(({ policy }) => policy),
      bindings: pairs.map(({ binding }) => binding),
      switches: pairs.length > 0 ? [admissionSwitch(options)] : [],
      webhooks: this.#mode === "Webhook" ? this.#webhooks(gates) : [],
    });
    this.#around.onChange();
  }

  /** `undefined` while it is not known which authority the API server has to trust. */
  #webhooks(gates: Gates): readonly MutatingWebhookConfiguration[] | undefined {
    const { spec } = this.#settings;
    const { installation } = this.#around;
    const ca = this.#certificates?.caBundle();
    if (spec.configuration !== undefined) {
      if (ca === undefined) return undefined;
      const { name, webhook } = spec.configuration;
      return [caBundleOf(name, webhook, ca)];
    }
    if (ca === undefined || gates.gates.length === 0) return gates.gates.length === 0 ? [] : undefined;
    const client =
      spec.url === undefined ? { service: serviceOf(this.#settings, installation) } : { url: spec.url };
    return [webhookConfiguration(gates, { installation, client, ca, failurePolicy: spec.failurePolicy })];
  }

  /** Runs while this replica leads. The last one to go takes the switch away, so that no node is held by nobody. */
  #keeping(): Component {
    return {
      name: "admission-objects",
      start: (signal): Promise<Running> => {
        this.#refresh();
        return Promise.resolve({ ended: this.#keep(signal), drain: () => this.#leave(signal) });
      },
    };
  }

  /** Nothing is watched until a gate is there, or objects of an earlier one have been left. */
  async #keep(signal: AbortSignal): Promise<void> {
    const { client, clock, log } = this.#around;
    let served: boolean | undefined;
    while (!signal.aborted && served === undefined) {
      try {
        served = await servesPolicies(client, signal);
        if (!(await this.#keepers.hasLeftovers(served, signal)))
          await Promise.race([this.#wanted.promise, whenAborted(signal)]);
      } catch (error) {
        if (signal.aborted) return;
        log.debug("what is left of earlier gates could not be looked at", { error: String(error) });
        await Promise.race([this.#wanted.promise, sleep(clock, RETRY_MS * 6, signal)]);
      }
    }
    if (signal.aborted) return;
    await Promise.all(
      this.#keepers.pairs(served === true).map(async ([informer, writer]) => {
        const { ended } = await informer.start(signal);
        await Promise.all([ended, writer.start(signal).then((running) => running.ended)]);
      }),
    );
  }

  async #leave(signal: AbortSignal): Promise<void> {
    if (this.#mode !== "Policy") return;
    const { client, installation, log } = this.#around;
    const { namespace, podName } = this.#settings;
    if (namespace === undefined) return;
    try {
      if (podName !== undefined && (await hasOthers(client, { namespace, installation, podName }, signal)))
        return;
      await this.#keepers.releaseSwitch(signal);
      log.info("nobody is left to let nodes go: new nodes are not gated until berth runs again");
    } catch (error) {
      log.warn("the switch of the admission policies could not be taken away", { error: String(error) });
    }
  }

  /** A lead that nobody renews, and that nobody takes over: nodes would be held for ever. */
  async #watchLease(signal: AbortSignal): Promise<void> {
    const { client, clock, lease, installation, log } = this.#around;
    const { namespace } = this.#settings;
    if (lease === undefined || namespace === undefined) return;
    await Promise.race([this.#decided.promise, whenAborted(signal)]);
    let staleFromMs: number | undefined;
    let lastRenewal: string | undefined;
    while (await sleep(clock, LEASE_LOOK_MS, signal)) {
      if (this.#mode !== "Policy") continue;
      try {
        const { spec } = await client.get(leases, lease, { signal });
        const nowMs = clock.monotonic();
        if (spec?.renewTime !== lastRenewal || staleFromMs === undefined) {
          lastRenewal = spec?.renewTime;
          staleFromMs = nowMs;
        }
        // Without a holder the lead was given up in order, and whoever did so took the switch away if he was the last.
        const limitMs = (spec?.leaseDurationSeconds ?? 15) * 1000 * STALE_LEASES;
        if (!spec?.holderIdentity || nowMs - staleFromMs < limitMs) continue;
        const name = `${baseName(installation)}-startup-gate`;
        await client.delete(serviceAccounts, { namespace, name }, { signal });
        log.error("nobody leads: new nodes are not gated until somebody does", { lease: lease.name });
      } catch (error) {
        if (!signal.aborted && !isApiError(error, "notFound"))
          log.debug("the lease could not be looked at", { error: String(error) });
      }
    }
  }
}

interface Wanted {
  readonly policies: readonly MutatingAdmissionPolicy[];
  readonly bindings: readonly MutatingAdmissionPolicyBinding[];
  readonly switches: readonly ServiceAccount[];
  readonly webhooks: readonly MutatingWebhookConfiguration[] | undefined;
}

interface Keepers {
  /** What sees and what writes; the first is to be started first. */
  pairs(withPolicies: boolean): readonly (readonly [Component, Component])[];
  /** Are there objects of ours? */
  hasLeftovers(withPolicies: boolean, signal: AbortSignal): Promise<boolean>;
  want(wanted: Wanted): void;
  problem(): string | undefined;
  releaseSwitch(signal: AbortSignal): Promise<void>;
}

function createKeepers({ spec, namespace }: AdmissionSettings, around: AdmissionSurroundings): Keepers {
  const { client, cluster, installation, clock, log, metrics } = around;
  const selector = admissionLabels({ installation });
  const common = { client, cluster, clock, log, metrics };
  const policies = createObjectKeeper({
    ...common,
    selector,
    name: "admission-policies",
    resource: mutatingAdmissionPolicies,
  });
  const bindings = createObjectKeeper({
    ...common,
    selector,
    name: "admission-bindings",
    resource: mutatingAdmissionPolicyBindings,
  });
  const webhooks = createObjectKeeper({
    ...common,
    name: "admission-webhooks",
    resource: mutatingWebhookConfigurations,
    ...(spec.configuration === undefined ? { selector } : { adopt: spec.configuration.name }),
  });
  const switches =
    namespace === undefined
      ? undefined
      : createObjectKeeper({
          ...common,
          selector,
          name: "admission-switch",
          resource: serviceAccounts,
          namespace,
        });
  type AnyKeeper = Pick<ObjectKeeper<never>, "components" | "problem">;
  const others: readonly AnyKeeper[] = [webhooks, ...(switches ? [switches] : [])];
  const all: readonly AnyKeeper[] = [policies, bindings, ...others];
  const labelSelector = Object.entries(selector)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
  return {
    pairs: (withPolicies) => (withPolicies ? all : others).map(({ components }) => components),
    async hasLeftovers(withPolicies, signal) {
      const scope = { labelSelector, limit: 1, signal };
      const lists = [
        client.list(mutatingWebhookConfigurations, scope),
        ...(withPolicies ? [client.list(mutatingAdmissionPolicies, scope)] : []),
      ];
      return (await Promise.all(lists)).some(({ items }) => items.length > 0);
    },
    want(wanted) {
      policies.setDesired(wanted.policies);
      bindings.setDesired(wanted.bindings);
      webhooks.setDesired(wanted.webhooks);
      switches?.setDesired(wanted.switches);
    },
    problem: () => all.map((one) => one.problem()).find((problem) => problem !== undefined),
    async releaseSwitch(signal) {
      await switches?.release(signal);
    },
  };
}

function caBundleOf(name: string, webhook: string, ca: string): MutatingWebhookConfiguration {
  const caBundle = Buffer.from(ca).toString("base64");
  return {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "MutatingWebhookConfiguration",
    metadata: { name },
    // Applied to what is there: the fields that are required stand already.
    webhooks: [
      { name: webhook, clientConfig: { caBundle } },
    ] as unknown as MutatingWebhookConfiguration["webhooks"] & object,
  };
}

function serviceOf(
  { spec, namespace = "" }: AdmissionSettings,
  installation: string,
): {
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
} {
  return spec.service ?? { namespace, name: `${baseName(installation)}-webhook`, port: 443 };
}

function hostsOf(settings: AdmissionSettings, installation: string): readonly string[] {
  const { spec } = settings;
  if (spec.url !== undefined) return [new URL(spec.url).hostname.replace(/^\[(.*)\]$/, "$1")];
  const { namespace, name } = serviceOf(settings, installation);
  return [`${name}.${namespace}.svc`, `${name}.${namespace}.svc.cluster.local`];
}

/** Does the API server have MutatingAdmissionPolicies (`v1`, from 1.36)? */
async function servesPolicies(client: KubeClient, signal: AbortSignal): Promise<boolean> {
  const { group, version, plural } = mutatingAdmissionPolicies;
  try {
    const found: unknown = JSON.parse(await client.read(`/apis/${group}/${version}`, { signal }));
    const { resources } = found as { readonly resources?: readonly { readonly name?: string }[] };
    return resources?.some(({ name }) => name === plural) === true;
  } catch (error) {
    if (isApiError(error, "notFound")) return false;
    throw error;
  }
}

/** Are there other pods of this installation that are not about to end? */
async function hasOthers(
  client: KubeClient,
  {
    namespace,
    installation,
    podName,
  }: { readonly namespace: string; readonly installation: string; readonly podName: string },
  signal: AbortSignal,
): Promise<boolean> {
  const labelSelector = `app.kubernetes.io/name=berth,app.kubernetes.io/instance=${installation}`;
  const { items } = await client.list(pods, { namespace, labelSelector, signal, timeoutMs: 800 });
  return items.some(
    ({ metadata, status }) =>
      metadata?.name !== podName && metadata?.deletionTimestamp === undefined && status?.phase === "Running",
  );
}
