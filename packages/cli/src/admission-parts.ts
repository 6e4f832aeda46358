/** What puts the taints of startup gates on new nodes: policies in the API server, or a webhook of ours. */
import type { KubeClient, MutatingWebhookConfiguration, Node } from "@berth/kube";
import {
  type AdmissionState,
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
  type Clock,
  type ClusterName,
  type Component,
  createLoopComponent,
  type Logger,
  type MetricsRegistry,
  type Running,
  type Subscribable,
  sleep,
  whenAborted,
} from "@berth/runtime";
import { type AdmissionKeepers, createAdmissionKeepers } from "./admission-keepers.ts";
import { Demand, EARLY_MS, keepOnceNeeded, RETRY_MS } from "./admission-keeping.ts";
import { createLeaseGuard } from "./admission-lease.ts";
import { createMissWatch, type MissWatch } from "./admission-misses.ts";
import { hasOthers, servesPolicies } from "./admission-questions.ts";
import { caBundleOf } from "./admission-webhook.ts";
import type { AdmissionServerSpec } from "./config/admission-server.ts";
import { baseName } from "./installation-name.ts";
import type { AdmissionSettings, WebhookOwner, WebhookServer } from "./webhook-server.ts";

export interface AdmissionSurroundings {
  readonly client: KubeClient;
  readonly cluster: ClusterName;
  readonly installation: string;
  readonly nodes: Subscribable<Node>;
  readonly gates: () => Gates | undefined;
  /** Of which `webhooks` is an owner. */
  readonly webhook: WebhookServer;
  readonly webhooks: WebhookOwner;
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
  /** The webhook server says something else. */
  webhookChanged(): void;
  /** What every replica runs. */
  readonly always: readonly Component[];
  /** What the leader runs: it keeps policies, switch and webhook configuration. */
  readonly elected: readonly Component[];
}

type Mode = "Policy" | "Webhook" | "Off";

function switchName(installation: string): string {
  return `${baseName(installation)}-startup-gate`;
}

/** What Berth answers about new nodes, and about DaemonSets that are to tolerate the gates. */
export function gateWebhooks(gates: () => Gates | undefined): WebhookOwner {
  const answer =
    (admit: typeof admitNodeRequest) =>
    (request: AdmissionRequest): AdmissionAnswer => {
      const known = gates();
      if (known === undefined) throw new Error("the startup gates have not been read yet");
      return { allowed: true, patch: admit(known, request) };
    };
  return {
    handlers: {
      "/mutate-node": answer(admitNodeRequest),
      "/mutate-daemonset": answer(admitDaemonSetRequest),
    },
    isReady: () => gates() !== undefined,
  };
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
  readonly #keepers: AdmissionKeepers;
  /** That were started. */
  #informers: readonly Component[] = [];
  #mode: Mode | undefined;
  #decidedMs = 0;
  /** When other gates, or another mode, were last to be put in force. */
  #changedMs = 0;
  readonly #misses: MissWatch;
  /** Why it is as it is, where that is a problem. */
  #fault: string | undefined;
  readonly #demand = new Demand();

  constructor(settings: AdmissionSettings, around: AdmissionSurroundings) {
    this.#settings = settings;
    this.#around = around;
    this.#keepers = createAdmissionKeepers({
      ...around,
      namespace: settings.namespace,
      adopted: settings.spec.configuration?.name,
    });
    if (settings.spec.mode === "Webhook") this.#demand.note();
    this.#misses = createMissWatch({
      nodes: around.nodes,
      gates: around.gates,
      isRelied: () =>
        (this.#mode === "Policy" || this.#mode === "Webhook") &&
        this.#problem() === undefined &&
        around.clock.monotonic() - this.#changedMs > EARLY_MS,
      onChange: () => around.onChange(),
    });
    this.always = [
      createLoopComponent({
        name: "admission",
        run: (signal) => this.#run(signal),
        problem: () => this.#problem(),
      }),
      this.#misses.component,
      ...(around.lease === undefined || settings.namespace === undefined
        ? []
        : [this.#leaseGuard(around.lease, settings.namespace)]),
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
    const missed = this.#misses.problem();
    return missed === undefined
      ? stateOf(this.#mode, this.#settings.spec.mode)
      : { works: false, reason: reasons.AdmissionFailed, message: missed };
  }

  gatesChanged(): void {
    this.#changedMs = this.#around.clock.monotonic();
    if ((this.#around.gates()?.gates.length ?? 0) > 0) this.#demand.note();
    this.#refresh();
  }

  webhookChanged(): void {
    this.#refresh();
  }

  #problem(): string | undefined {
    if (this.#fault !== undefined) return this.#fault;
    const needed = (this.#around.gates()?.gates.length ?? 0) > 0;
    const unserved = this.#mode === "Webhook" ? this.#around.webhook.problem() : undefined;
    if (unserved !== undefined) return unserved;
    return needed ? (this.#keepers.problem() ?? this.#sightProblem()) : undefined;
  }

  /** What cannot be seen is not written either. */
  #sightProblem(): string | undefined {
    const mode = this.#mode;
    if (mode !== "Policy" && mode !== "Webhook") return undefined;
    for (const informer of this.#informers) {
      const isOfWebhook = informer.name.startsWith("admission-webhooks");
      const problem = isOfWebhook === (mode === "Webhook") ? informer.problem?.() : undefined;
      if (problem !== undefined) return problem;
    }
    return undefined;
  }

  /** Finds out what to do once a gate asks for it. */
  async #run(signal: AbortSignal): Promise<void> {
    await Promise.race([this.#demand.first, whenAborted(signal)]);
    while (!signal.aborted && this.#mode === undefined) {
      this.#mode = await this.#chooseMode(signal);
      if (this.#mode === undefined) await sleep(this.#around.clock, RETRY_MS, signal);
    }
    this.#decidedMs = this.#around.clock.monotonic();
    this.#changedMs = this.#decidedMs;
    using _later = this.#around.clock.schedule(EARLY_MS, () => this.#around.onChange());
    if (signal.aborted || this.#mode === undefined) return;
    this.#around.log.info("admission of new nodes", { mode: this.#mode });
    if (this.#mode === "Policy" && this.#settings.namespace === undefined)
      this.#fault = "policies need Berth's namespace, which does not exist";
    if (this.#mode === "Webhook") this.#around.webhook.demand(this.#around.webhooks);
    this.#refresh();
    await whenAborted(signal);
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

  #refresh(): void {
    const { gates: current, installation } = this.#around;
    const gates = current();
    const { spec, namespace } = this.#settings;
    // Objects of gates that are yet to be read must not be taken for left over.
    if (gates?.policy.isUndecided) return;
    if (this.#mode === undefined) {
      // Without gates there is nothing to choose, and whatever is left of earlier ones has to go.
      if (gates?.gates.length === 0)
        this.#keepers.want({ policies: [], bindings: [], switches: [], webhooks: [] });
      return;
    }
    if (gates === undefined) return;
    const list = this.#mode === "Policy" && namespace !== undefined ? gates : { gates: [] };
    const options = {
      installation,
      failurePolicy: spec.failurePolicy,
      switch: { namespace: namespace ?? "", name: switchName(installation) },
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
    const { installation, webhook } = this.#around;
    const ca = webhook.caBundle();
    if (spec.configuration !== undefined) {
      if (ca === undefined) return undefined;
      const { name, webhook } = spec.configuration;
      return [caBundleOf(name, webhook, ca)];
    }
    if (ca === undefined || gates.gates.length === 0) return gates.gates.length === 0 ? [] : undefined;
    const { failurePolicy } = spec;
    return [webhookConfiguration(gates, { installation, client: webhook.address, ca, failurePolicy })];
  }

  #leaseGuard(lease: { readonly namespace: string; readonly name: string }, namespace: string): Component {
    const { client, clock, log, installation } = this.#around;
    return createLeaseGuard({
      client,
      clock,
      log,
      lease,
      switch: { namespace, name: switchName(installation) },
      isUsed: () => this.#mode === "Policy",
    });
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

  #keep(signal: AbortSignal): Promise<void> {
    const { client, clock, log } = this.#around;
    return keepOnceNeeded(
      {
        demand: this.#demand,
        prepare: (aborts) => servesPolicies(client, aborts),
        hasLeftovers: (served, aborts) => this.#keepers.hasLeftovers(served, aborts),
        pairs: (served) => {
          const pairs = this.#keepers.pairs(served);
          this.#informers = pairs.map(([informer]) => informer);
          return pairs;
        },
        clock,
        log,
      },
      signal,
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
}

function stateOf(mode: Mode, asked: AdmissionServerSpec["mode"]): AdmissionState {
  if (mode === "Policy") {
    const message = "the API server puts the taint on new nodes";
    return { works: true, reason: reasons.AdmissionByPolicy, message };
  }
  if (mode === "Webhook")
    return { works: true, reason: reasons.AdmissionByWebhook, message: "Berth is asked about new nodes" };
  const why = asked === "Auto" ? "Berth's namespace does not exist: " : "";
  const message = `${why}new nodes are gated after their creation, when they are idle`;
  return { works: false, reason: reasons.AdmissionOff, message };
}
