/** What puts the taints of startup gates on new nodes: policies in the API server, or a webhook of ours. */

import {
  createLeaseGuard,
  Demand,
  EARLY_MS,
  hasOthers,
  keepOnceNeeded,
  RETRY_MS,
  servesPolicies,
} from "@berth/host";
import {
  isApiError,
  type KubeClient,
  type MutatingWebhookConfiguration,
  mutatingWebhookConfigurations,
  type Node,
} from "@berth/kube";
import {
  type AdmissionState,
  admissionPolicies,
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
import { type AdmissionKeepers, createAdmissionKeepers, type KeptObjects } from "./admission-keepers.ts";
import { createMissWatch, type MissWatch } from "./admission-misses.ts";
import { caBundleOf } from "./admission-webhook.ts";
import type { AdmissionServerSpec } from "./config/admission-server.ts";
import { baseName } from "./installation-name.ts";
import { createStateReport } from "./kept-webhook.ts";
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
  /** What the leader runs: it keeps policies and webhook configuration. */
  readonly elected: readonly Component[];
}

type Mode = "Policy" | "Webhook" | "Off";

/** How soon a policy that is refused, or accepted again, changes the mode. Milliseconds. */
const LOOK_MS = 3000;
/** The webhook stays this long after the policies were accepted: the API server takes a moment to act on them. */
const TAKEOVER_MS = 3000;

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
  /** What `Auto` stands for, as far as the API server serves policies; otherwise what was asked for. */
  #chosen: Mode | undefined;
  /** The mode whose objects are in force. */
  #entered: Mode | undefined;
  /** When a policy was last seen to be refused. */
  #refusedMs = Number.NEGATIVE_INFINITY;
  /** A webhook configuration that stands is left alone until the policies are stored. */
  #mayKeepWebhook = false;
  /** When other gates, or another mode, were last to be put in force. */
  #changedMs = 0;
  readonly #misses: MissWatch;
  readonly #demand = new Demand();

  constructor(settings: AdmissionSettings, around: AdmissionSurroundings) {
    this.#settings = settings;
    this.#around = around;
    this.#keepers = createAdmissionKeepers({ ...around, adopted: settings.spec.configuration?.name });
    if (settings.spec.mode === "Webhook") this.#demand.note();
    this.#misses = createMissWatch({
      nodes: around.nodes,
      gates: around.gates,
      isRelied: () =>
        (this.#mode === "Policy" || this.#mode === "Webhook") &&
        this.#problem() === undefined &&
        !this.#isEarly,
      onChange: () => around.onChange(),
    });
    this.always = [
      createLoopComponent({
        name: "startup-gate-admission",
        run: (signal) => this.#run(signal),
        problem: () => this.#problem(),
      }),
      this.#misses.component,
      ...(around.lease === undefined ? [] : [this.#leaseGuard(around.lease)]),
    ];
    const { clock, onChange: tell } = around;
    const report = { state: () => this.state(), clock, tell };
    this.elected = [this.#keeping(), createStateReport("startup-gate-admission-report", report)];
  }

  state(): AdmissionState | undefined {
    const mode = this.#mode;
    const gates = this.#around.gates();
    if (mode === undefined || gates === undefined || gates.gates.length === 0) return undefined;
    const missing = this.#objects?.settled() === false ? "its objects are not written yet" : undefined;
    const problem = this.#problem() ?? missing;
    // Certificates are made and objects written within moments: until then nothing has failed.
    if (problem !== undefined && this.#isEarly) return undefined;
    const fault = problem ?? this.#misses.problem();
    return fault === undefined
      ? stateOf(mode, this.#settings.spec.mode, this.#refusal)
      : { works: false, reason: reasons.AdmissionFailed, message: fault };
  }

  /** Why `Auto` does not rely on policies though the API server serves them. */
  get #refusal(): string | undefined {
    if (this.#settings.spec.mode !== "Auto" || this.#chosen !== "Policy") return undefined;
    return this.#keepers.policies.refusal();
  }

  /** `Auto` is a webhook while the API server refuses a policy. The policies are tried again meanwhile. */
  get #mode(): Mode | undefined {
    return this.#refusal === undefined ? this.#chosen : "Webhook";
  }

  /** Those that put the taint on new nodes. */
  get #objects(): KeptObjects | undefined {
    if (this.#mode === "Policy") return this.#keepers.policies;
    return this.#mode === "Webhook" ? this.#keepers.webhooks : undefined;
  }

  get #isEarly(): boolean {
    return this.#around.clock.monotonic() - this.#changedMs < EARLY_MS;
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
    const unserved = this.#mode === "Webhook" ? this.#around.webhook.problem() : undefined;
    const needed = (this.#around.gates()?.gates.length ?? 0) > 0;
    return unserved ?? (needed ? this.#objects?.problem() : undefined);
  }

  /** Finds out what to do once a gate asks for it, and follows what the API server accepts. */
  async #run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#around;
    await Promise.race([this.#demand.first, whenAborted(signal)]);
    while (!signal.aborted && this.#chosen === undefined) {
      this.#chosen = await this.#chooseMode(signal);
      if (this.#chosen === undefined) await sleep(clock, RETRY_MS, signal);
    }
    do {
      this.#enter();
      if (this.#mayKeepWebhook && this.#keepers.policies.settled()) this.#refresh();
    } while (await sleep(clock, LOOK_MS, signal));
  }

  #enter(): void {
    const mode = this.#mode;
    const nowMs = this.#around.clock.monotonic();
    if (this.#refusal !== undefined) this.#refusedMs = nowMs;
    if (mode === undefined || mode === this.#entered) return;
    if (mode === "Policy" && nowMs - this.#refusedMs < TAKEOVER_MS) return;
    // A request that failed for another reason is no acceptance: the webhook goes once the policies stand.
    if (this.#entered === "Webhook" && !this.#keepers.policies.settled()) return;
    this.#entered = mode;
    this.#changedMs = nowMs;
    this.#around.log.info("admission of new nodes", { mode, refusal: this.#refusal });
    if (mode === "Webhook") this.#around.webhook.demand(this.#around.webhooks);
    this.#refresh();
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
    const { failurePolicy } = this.#settings.spec;
    // Objects of gates that are yet to be read must not be taken for left over.
    if (gates === undefined || gates.policy.isUndecided) return;
    const chosen = this.#chosen;
    // Without gates there is nothing to choose, and whatever is left of earlier ones has to go.
    if (chosen === undefined && gates.gates.length > 0) return;
    const list = chosen === "Policy" ? gates : { gates: [] };
    const pairs = admissionPolicies(list, { installation, failurePolicy });
    // A leader before this one may have fallen back to the webhook.
    this.#mayKeepWebhook =
      pairs.length > 0 && this.#entered !== "Webhook" && !this.#keepers.policies.settled();
    this.#keepers.want({
      policies: pairs.map(({ policy }) => policy),
      bindings: pairs.map(({ binding }) => binding),
      webhooks: this.#mayKeepWebhook ? undefined : this.#entered === "Webhook" ? this.#webhooks(gates) : [],
    });
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

  #leaseGuard(lease: { readonly namespace: string; readonly name: string }): Component {
    const { client, clock, log } = this.#around;
    return createLeaseGuard({
      client,
      clock,
      log,
      lease,
      isUsed: () => this.#chosen === "Policy",
      onStale: (signal) => this.#keepers.turnPoliciesOff(signal),
      onLed: (signal) => this.#followLeader(signal),
    });
  }

  /** The leader alone knows that a policy is refused. Its webhook configuration leads to all replicas. */
  async #followLeader(signal: AbortSignal): Promise<void> {
    if (this.#settings.spec.mode !== "Auto") return;
    const { client, installation, webhook, webhooks } = this.#around;
    const name = `${baseName(installation)}-startup-gate`;
    try {
      await client.get(mutatingWebhookConfigurations, { name }, { signal });
      webhook.demand(webhooks);
    } catch (error) {
      if (!isApiError(error, "notFound")) throw error;
    }
  }

  /** Runs while this replica leads. The last one to go turns the policies off, so that no node is held for ever. */
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
        pairs: (served) => this.#keepers.pairs(served),
        clock,
        log,
      },
      signal,
    );
  }

  async #leave(signal: AbortSignal): Promise<void> {
    if (this.#chosen !== "Policy") return;
    const { client, installation, log } = this.#around;
    const { namespace, podName } = this.#settings;
    try {
      const pod = namespace !== undefined && podName !== undefined && { namespace, installation, podName };
      if (pod && (await hasOthers(client, pod, signal))) return;
      await this.#keepers.turnPoliciesOff(signal);
      log.info("the last replica ends: new nodes are not gated until berth runs again");
    } catch (error) {
      log.warn("the policies for new nodes could not be turned off", { error: String(error) });
    }
  }
}

/** `refusal`: why it is not by policy. */
function stateOf(
  mode: Mode,
  asked: AdmissionServerSpec["mode"],
  refusal: string | undefined,
): AdmissionState {
  if (mode === "Policy") {
    const message = "the API server puts the taint on new nodes";
    return { works: true, reason: reasons.AdmissionByPolicy, message };
  }
  if (mode === "Webhook") {
    const why = refusal === undefined ? "" : `, because a policy is not possible: ${refusal}`;
    const message = `Berth is asked about new nodes${why}`;
    return { works: true, reason: reasons.AdmissionByWebhook, message };
  }
  const why = asked === "Auto" ? "Berth's namespace does not exist: " : "";
  const message = `${why}new nodes are gated after their creation, when they are idle`;
  return { works: false, reason: reasons.AdmissionOff, message };
}
