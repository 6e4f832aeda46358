/** One set of rules: its mode (policy or webhook), its objects in the API server, and its state. */
import { isApiError, mutatingWebhookConfigurations } from "@berth/kube";
import { type Component, createLoopComponent, type Running, sleep, whenAborted } from "@berth/runtime";
import {
  type AdmissionKeepers,
  type Configuration,
  createAdmissionKeepers,
  type KeeperOptions,
  type KeptObjects,
  together,
} from "./keepers.ts";
import { Demand, EARLY_MS, keepOnceNeeded, RETRY_MS } from "./keeping.ts";
import { createLeaseGuard } from "./lease.ts";
import { type MergedReview, toConfiguration } from "./merge.ts";
import { ownedMetadata } from "./objects.ts";
import { createPassedWatch, type PassedWatch } from "./passed.ts";
import { hasOthers, servesPolicies } from "./questions.ts";
import type { AdmissionEnv, BoundRules } from "./rules.ts";
import type { WebhookServer } from "./server.ts";
import { type AdmissionSettings, UNASKED, type Unasked, whyUnasked } from "./settings.ts";

/** Whether the API server calls Berth, or applies policies itself. Conditions show it. */
export interface AdmissionState {
  readonly ready: boolean;
  readonly reason: "AdmissionByPolicy" | "AdmissionByWebhook" | "AdmissionFailed" | "AdmissionOff";
  readonly message: string;
}

/** How the webhooks of all rules are merged, seen from one set of rules. */
export interface Merging {
  /** The reviews in its own configuration. */
  readonly reviewsOf: (rules: BoundRules) => readonly MergedReview[];
  /** The rules whose configurations contain its reviews. */
  readonly carriersOf: (rules: BoundRules) => readonly KeptRules[];
  /** Have all documents been read that can add reviews to its configuration? */
  readonly isKnown: (rules: BoundRules) => boolean;
  /** May an empty configuration be deleted? Not while another configuration has yet to take over its reviews. */
  readonly mayRemove: (rules: BoundRules) => boolean;
}

export interface KeptOptions extends KeeperOptions {
  readonly settings: AdmissionSettings;
  readonly env: AdmissionEnv;
  readonly webhook: WebhookServer;
  readonly lease?: { readonly namespace: string; readonly name: string };
  readonly merging: Merging;
}

type Mode = "Policy" | "Webhook" | "Off";

/** Delay until the mode follows a policy that the API server refuses, or accepts again, ms. */
const LOOK_MS = 3000;
/** How long the webhook stays after the API server accepted the policies, ms. The server needs time to apply them. */
const TAKEOVER_MS = 3000;

export class KeptRules {
  readonly rules: BoundRules;
  readonly passed: PassedWatch;
  /** Components that every replica runs. */
  readonly always: readonly Component[];
  /** Runs on the leader. The last replica deletes the bindings when it ends, so that no object is held for ever. */
  readonly elected: Component;
  readonly #options: KeptOptions;
  readonly #keepers: AdmissionKeepers;
  readonly #unasked: Unasked | undefined;
  readonly #demand = new Demand();
  /** The mode that `Auto` selects by the API server's support of policies; otherwise the mode in the settings. */
  #chosen: Mode | undefined;
  /** The mode whose objects Berth writes now. */
  #entered: Mode | undefined;
  /** Time of the last check that found a refused policy, monotonic ms. */
  #refusedMs = Number.NEGATIVE_INFINITY;
  /** True: an existing webhook configuration stays until the policies are stored. */
  #mayKeepWebhook = false;
  /** Time of the last change of documents or of the mode, monotonic ms. */
  #changedMs = 0;
  /** Do the documents need admission? */
  #isWanted = false;
  #isWaiting = false;
  #isWarned = false;

  constructor(rules: BoundRules, options: KeptOptions) {
    const { settings, clock, env, lease, metrics } = options;
    const { spec, namespace } = settings;
    const { name, policies } = rules;
    this.rules = rules;
    this.#options = options;
    const adopted = policies && spec.configuration?.name;
    this.#keepers = createAdmissionKeepers(rules, { ...env, adopted }, options);
    this.#unasked = whyUnasked(settings, policies !== undefined);
    const isAlone = spec.mode === "Auto" && namespace === undefined;
    if (this.#unasked !== undefined) this.#chosen = "Off";
    else if (policies === undefined || isAlone) this.#chosen = this.#entered = "Webhook";
    if (policies && spec.mode === "Webhook") this.#demand.note();
    this.passed = createPassedWatch(rules, { works: () => this.base()?.ready === true, clock });
    metrics.gauge({
      name: `${metrics.prefix}admission_missed`,
      help: "1 after an object was stored without admission by these rules, until admission has changed another one.",
      labels: ["rules"],
      collect: (gauge) => gauge.set(this.#missed() === undefined ? 0 : 1, { rules: name }),
    });
    this.always =
      policies === undefined
        ? []
        : [
            createLoopComponent({ name: `${name}-admission-mode`, run: (signal) => this.#run(signal) }),
            ...(lease === undefined ? [] : [this.#leaseGuard(lease)]),
          ];
    this.elected = {
      name: `${name}-admission`,
      start: (signal): Promise<Running> => {
        this.refresh();
        return Promise.resolve({ ended: this.#keep(signal), drain: () => this.#leave(signal) });
      },
      problem: () => this.problem(),
    };
  }

  /** Do the documents need admission, and do the settings allow it? */
  get isNeeded(): boolean {
    return this.#unasked === undefined && this.#isWanted;
  }

  /** Does the API server ask Berth itself? `undefined` while that is not known. */
  get isByWebhook(): boolean | undefined {
    if (this.#unasked !== undefined) return false;
    if (["unread", "reading"].includes(this.rules.read())) return undefined;
    if (!this.#isWanted) return false;
    return this.#entered && this.#entered === "Webhook";
  }

  /** Does an empty configuration stay for now? */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  /** Is the configuration written, or is there a known problem? */
  get isCalm(): boolean {
    return this.#keepers.webhooks.settled() || this.#keepers.webhooks.problem() !== undefined;
  }

  get webhooks(): KeptObjects {
    return this.#keepers.webhooks;
  }

  /** To be called when other documents came into force. */
  changed(): void {
    const { clock, env } = this.#options;
    if (this.rules.policies || !this.isNeeded) this.#changedMs = clock.monotonic();
    this.#isWanted = this.rules.reviews.some((review) => review.when(env) !== undefined);
    this.passed.changed();
    const isMeant = this.#unasked === undefined || this.#unasked === "off";
    const state = isMeant || this.#isWarned ? undefined : this.base();
    if (state === undefined) return;
    this.#isWarned = true;
    this.#options.log.warn(state.message, { reason: state.reason });
  }

  state(): AdmissionState | undefined {
    const missed = this.#missed();
    return missed === undefined ? this.base() : failed(missed);
  }

  #missed(): string | undefined {
    return this.base()?.ready ? this.passed.problem() : undefined;
  }

  /** The state without `passed`. `undefined` while it is not known, or while the documents need no admission. */
  base(): AdmissionState | undefined {
    const mode = this.#mode;
    const { texts } = this.rules;
    if (mode === undefined || !this.#isWanted) return undefined;
    if (mode === "Off")
      return {
        ready: false,
        reason: "AdmissionOff",
        message: `${UNASKED[this.#unasked ?? "off"]}: ${texts.off}`,
      };
    const why = this.problem() ?? (this.#objects?.settled() ? undefined : unwritten[mode]);
    // Certificates and objects need a moment at the start. Until then a missing object is no failure.
    if (why !== undefined)
      return this.#options.clock.monotonic() - this.#changedMs < EARLY_MS ? undefined : failed(why);
    if (mode === "Policy" && texts.byPolicy !== undefined)
      return { ready: true, reason: "AdmissionByPolicy", message: texts.byPolicy };
    const refused = this.#refusal === undefined ? "" : `, because a policy is not possible: ${this.#refusal}`;
    return { ready: true, reason: "AdmissionByWebhook", message: `${texts.asked}${refused}` };
  }

  problem(): string | undefined {
    const { webhook, settings } = this.#options;
    const { isNeeded } = this;
    const isAsked = isNeeded || (this.rules.policies !== undefined && settings.spec.mode === "Webhook");
    const byWebhook = this.#mode === "Webhook";
    const unserved = byWebhook && isAsked ? webhook.problem() : undefined;
    if (unserved !== undefined || !isNeeded) return unserved;
    if (byWebhook && webhook.caBundle() === undefined)
      return "no file says which authority the API server has to trust: put ca.crt beside the certificate";
    return this.#objects?.problem();
  }

  /** Writes the objects that follow from the documents, the API server and the other rules. */
  refresh(): void {
    const { env, webhook } = this.#options;
    const { isNeeded, rules } = this;
    if (isNeeded) {
      this.#demand.note();
      if (this.#entered === "Webhook") webhook.demand(rules);
    }
    // Before all documents are read, Berth must not delete their objects as leftovers.
    if (rules.read() !== "read") return;
    const chosen = this.#chosen;
    // Without documents the mode does not matter: Berth deletes the objects of earlier documents.
    if (chosen === undefined && isNeeded) return;
    const pairs = (chosen === "Policy" && rules.policies?.(env)) || [];
    // An earlier leader may have switched to the webhook: keep its configuration until the policies are stored.
    this.#mayKeepWebhook =
      pairs.length > 0 && this.#entered !== "Webhook" && !this.#keepers.policies.settled();
    this.#keepers.want(pairs, this.#mayKeepWebhook ? undefined : this.#configurations());
  }

  /** Why `Auto` does not use policies, although the API server serves them. */
  get #refusal(): string | undefined {
    if (this.#options.settings.spec.mode !== "Auto" || this.#chosen !== "Policy") return undefined;
    return this.#keepers.policies.refusal();
  }

  /** `Auto` uses the webhook while the API server refuses a policy. Berth keeps trying to write the policies. */
  get #mode(): Mode | undefined {
    return this.#refusal === undefined ? this.#chosen : "Webhook";
  }

  /** The objects that put the current mode into effect. */
  get #objects(): KeptObjects | undefined {
    if (this.#mode === "Policy") return this.#keepers.policies;
    const carriers = this.#mode === "Webhook" ? this.#options.merging.carriersOf(this.rules) : [];
    return carriers.length === 0 ? undefined : together(carriers.map(({ webhooks }) => webhooks));
  }

  /** `undefined` while Berth does not know the certificate authority, or the reviews. */
  #configurations(): readonly Configuration[] | undefined {
    const { settings, env, webhook, merging } = this.#options;
    const { rules } = this;
    if (this.#entered !== "Webhook") return [];
    const ca = webhook.caBundle();
    const { configuration } = settings.spec;
    if (rules.policies && configuration !== undefined)
      return ca === undefined ? undefined : [caBundleOf(configuration, ca)];
    if (!merging.isKnown(rules)) return undefined;
    const reviews = merging.reviewsOf(rules);
    this.#isWaiting = reviews.length === 0 && !merging.mayRemove(rules);
    if (reviews.length === 0) return this.#isWaiting ? undefined : [];
    if (ca === undefined) return undefined;
    const at = { ...env, client: webhook.address, ca };
    return [toConfiguration(rules, reviews, at)];
  }

  /** Waits for the first demand and selects the mode. Then follows what the API server accepts or refuses. */
  async #run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    await Promise.race([this.#demand.first, whenAborted(signal)]);
    while (!signal.aborted && this.#chosen === undefined) {
      this.#chosen = await this.#choose(signal);
      if (this.#chosen === undefined) await sleep(clock, RETRY_MS, signal);
    }
    do {
      this.#enter();
      if (this.#mayKeepWebhook && this.#keepers.policies.settled()) this.refresh();
    } while (await sleep(clock, LOOK_MS, signal));
  }

  /** `undefined`: the API server did not answer the question. */
  async #choose(signal: AbortSignal): Promise<Mode | undefined> {
    const { client, log, settings } = this.#options;
    if (settings.spec.mode !== "Auto") return settings.spec.mode;
    try {
      return (await servesPolicies(client, signal)) ? "Policy" : "Webhook";
    } catch (error) {
      if (!signal.aborted)
        log.warn("it is not known yet how admission is set up", {
          rules: this.rules.name,
          error: String(error),
        });
      return undefined;
    }
  }

  #enter(): void {
    const mode = this.#mode;
    const { clock, log, webhook } = this.#options;
    const nowMs = clock.monotonic();
    if (this.#refusal !== undefined) this.#refusedMs = nowMs;
    if (mode === undefined || mode === this.#entered) return;
    if (mode === "Policy" && nowMs - this.#refusedMs < TAKEOVER_MS) return;
    // A write that failed for another reason is no acceptance. The webhook goes once the policies are stored.
    if (this.#entered === "Webhook" && !this.#keepers.policies.settled()) return;
    this.#entered = mode;
    this.#changedMs = nowMs;
    log.info("admission", { rules: this.rules.name, mode, refusal: this.#refusal });
    if (mode === "Webhook") webhook.demand(this.rules);
    this.refresh();
  }

  #leaseGuard(lease: { readonly namespace: string; readonly name: string }): Component {
    const { client, clock, log } = this.#options;
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

  /** Only the leader knows that a policy is refused. Its webhook configuration can send requests to every replica. */
  async #followLeader(signal: AbortSignal): Promise<void> {
    const { client, settings, env, webhook } = this.#options;
    if (settings.spec.mode !== "Auto") return;
    const { name } = ownedMetadata(env, this.rules.name);
    try {
      await client.get(mutatingWebhookConfigurations, { name }, { signal });
      webhook.demand(this.rules);
    } catch (error) {
      if (!isApiError(error, "notFound")) throw error;
    }
  }

  #keep(signal: AbortSignal): Promise<void> {
    const { client } = this.#options;
    const keeping = {
      ...this.#options,
      demand: this.#demand,
      prepare: async (aborts: AbortSignal) =>
        this.rules.policies !== undefined && (await servesPolicies(client, aborts)),
      hasLeftovers: (served: boolean, aborts: AbortSignal) => this.#keepers.hasLeftovers(served, aborts),
      pairs: (served: boolean) => this.#keepers.pairs(served),
    };
    return keepOnceNeeded(keeping, signal);
  }

  async #leave(signal: AbortSignal): Promise<void> {
    if (this.#chosen !== "Policy") return;
    const { client, settings, env, log } = this.#options;
    const { namespace, podName } = settings;
    try {
      const pod = namespace !== undefined && podName !== undefined && { ...env, namespace, podName };
      if (pod && (await hasOthers(client, pod, signal))) return;
      await this.#keepers.turnPoliciesOff(signal);
      log.info("the last replica ends: its policies are off until it runs again", {
        rules: this.rules.name,
      });
    } catch (error) {
      log.warn("the policies could not be turned off", { rules: this.rules.name, error: String(error) });
    }
  }
}

const unwritten = {
  Policy: "its objects are not written yet",
  Webhook: "the webhook configuration is not written yet",
} as const;

function failed(message: string): AdmissionState {
  return { ready: false, reason: "AdmissionFailed", message };
}

/** For server-side apply on the user's object: required fields are already there. */
function caBundleOf(
  { name, webhook }: { readonly name: string; readonly webhook: string },
  ca: string,
): Configuration {
  const clientConfig = { caBundle: Buffer.from(ca).toString("base64") };
  return {
    metadata: { name },
    webhooks: [{ name: webhook, clientConfig }] as unknown as Configuration["webhooks"] & object,
  };
}
