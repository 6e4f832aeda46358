/** One set of rules: whether policies or a webhook serve it, what stands for it in the API server, and whether that works. */
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
import { type AdmissionSettings, whyUnasked } from "./settings.ts";

/** Whether the API server asks, or acts by itself: for conditions. */
export interface AdmissionState {
  readonly ready: boolean;
  readonly reason: "AdmissionByPolicy" | "AdmissionByWebhook" | "AdmissionFailed" | "AdmissionOff";
  readonly message: string;
}

/** What the webhooks of all rules together say about one set. */
export interface Merging {
  /** What its own configuration asks for. */
  readonly reviewsOf: (rules: BoundRules) => readonly MergedReview[];
  /** Those whose configurations ask for its reviews. */
  readonly carriersOf: (rules: BoundRules) => readonly KeptRules[];
  /** Have the documents been read, as far as they can be, that may add to its configuration? */
  readonly isKnown: (rules: BoundRules) => boolean;
  /** May a configuration that asks for nothing any more go? Another one may have yet to take over. */
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

/** How soon a policy that is refused, or accepted again, changes the mode. Milliseconds. */
const LOOK_MS = 3000;
/** The webhook stays this long after the policies were accepted: the API server takes a moment to act on them. */
const TAKEOVER_MS = 3000;

export class KeptRules {
  readonly rules: BoundRules;
  readonly passed: PassedWatch;
  /** What every replica runs. */
  readonly always: readonly Component[];
  /** What the leader runs. The last replica to go turns the policies off, so that no object is held for ever. */
  readonly elected: Component;
  readonly #options: KeptOptions;
  readonly #keepers: AdmissionKeepers;
  readonly #unasked: "off" | "homeless" | undefined;
  readonly #demand = new Demand();
  /** What `Auto` stands for, as far as the API server serves policies; otherwise what was asked for. */
  #chosen: Mode | undefined;
  /** The mode whose objects are in force. */
  #entered: Mode | undefined;
  /** When a policy was last seen to be refused. */
  #refusedMs = Number.NEGATIVE_INFINITY;
  /** A webhook configuration that stands is left alone until the policies are stored. */
  #mayKeepWebhook = false;
  /** When other documents, or another mode, were last to be put in force. */
  #changedMs = 0;
  /** Do the documents want the API server to ask? */
  #isWanted = false;
  #isWaiting = false;
  #isWarned = false;

  constructor(rules: BoundRules, options: KeptOptions) {
    const { settings, clock, env, lease } = options;
    const { spec, namespace } = settings;
    const { name, policies } = rules;
    this.rules = rules;
    this.#options = options;
    const adopted = policies && spec.configuration?.name;
    this.#keepers = createAdmissionKeepers(rules, { ...env, adopted }, options);
    // Policies need a namespace as well: the last replica that ends is found there.
    const isAlone = policies !== undefined && spec.mode === "Auto" && namespace === undefined;
    this.#unasked = isAlone ? "homeless" : whyUnasked(settings);
    if (this.#unasked !== undefined) this.#chosen = "Off";
    else if (policies === undefined) this.#chosen = this.#entered = "Webhook";
    if (policies && spec.mode === "Webhook") this.#demand.note();
    this.passed = createPassedWatch(rules, { works: () => this.base()?.ready === true, clock });
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

  /** Do the documents want the API server to ask, and may it? */
  get isNeeded(): boolean {
    return this.#unasked === undefined && this.#isWanted;
  }

  /** May its configuration not be removed yet? */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  /** Does its configuration stand, or is it told why not? */
  get isCalm(): boolean {
    return this.#keepers.webhooks.settled() || this.#keepers.webhooks.problem() !== undefined;
  }

  get webhooks(): KeptObjects {
    return this.#keepers.webhooks;
  }

  /** Other documents are in force. */
  changed(): void {
    const { clock, env } = this.#options;
    if (this.rules.policies || !this.isNeeded) this.#changedMs = clock.monotonic();
    this.#isWanted = this.rules.reviews.some((review) => review.when(env) !== undefined);
    this.passed.changed();
    const state = this.#unasked === "homeless" && !this.#isWarned ? this.base() : undefined;
    if (state === undefined) return;
    this.#isWarned = true;
    this.#options.log.warn(state.message, { reason: state.reason });
  }

  state(): AdmissionState | undefined {
    const base = this.base();
    const missed = base?.ready ? this.passed.problem() : undefined;
    return missed === undefined ? base : failed(missed);
  }

  /** As far as objects and the server tell; `undefined` while that is not known, or nothing is wanted. */
  base(): AdmissionState | undefined {
    const mode = this.#mode;
    const { texts } = this.rules;
    if (mode === undefined || !this.#isWanted) return undefined;
    if (mode === "Off")
      return { ready: false, reason: "AdmissionOff", message: texts.off(this.#unasked ?? "off") };
    const why = this.problem() ?? (this.#objects?.settled() ? undefined : unwritten[mode]);
    // Certificates are made and objects written within moments: until then nothing has failed.
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
      return "nobody says which authority the API server has to trust: put ca.crt beside the certificate";
    return this.#objects?.problem();
  }

  /** Puts in force what the documents, the server and the other rules say. */
  refresh(): void {
    const { env, webhook } = this.#options;
    const { isNeeded, rules } = this;
    if (isNeeded) {
      this.#demand.note();
      if (this.#entered === "Webhook") webhook.demand(rules);
    }
    // Objects of documents that are yet to be read must not be taken for left over.
    if (rules.read() !== "read") return;
    const chosen = this.#chosen;
    // Without documents there is nothing to choose, and whatever is left of earlier ones has to go.
    if (chosen === undefined && isNeeded) return;
    const pairs = (chosen === "Policy" && rules.policies?.(env)) || [];
    // A leader before this one may have fallen back to the webhook.
    this.#mayKeepWebhook =
      pairs.length > 0 && this.#entered !== "Webhook" && !this.#keepers.policies.settled();
    this.#keepers.want(pairs, this.#mayKeepWebhook ? undefined : this.#configurations());
  }

  /** Why `Auto` does not rely on policies though the API server serves them. */
  get #refusal(): string | undefined {
    if (this.#options.settings.spec.mode !== "Auto" || this.#chosen !== "Policy") return undefined;
    return this.#keepers.policies.refusal();
  }

  /** `Auto` is a webhook while the API server refuses a policy. The policies are tried again meanwhile. */
  get #mode(): Mode | undefined {
    return this.#refusal === undefined ? this.#chosen : "Webhook";
  }

  /** Those that have the API server ask, or act. */
  get #objects(): KeptObjects | undefined {
    if (this.#mode === "Policy") return this.#keepers.policies;
    const carriers = this.#mode === "Webhook" ? this.#options.merging.carriersOf(this.rules) : [];
    return carriers.length === 0 ? undefined : together(carriers.map(({ webhooks }) => webhooks));
  }

  /** `undefined` while it is not known which authority the API server has to trust, or what is to be asked. */
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
    const at = { installation: env.installation, client: webhook.address, ca };
    return [toConfiguration(rules, reviews, at)];
  }

  /** Finds out what to do once a document asks for it, and follows what the API server accepts. */
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

  /** `undefined`: the server would not say. */
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
    // A request that failed for another reason is no acceptance: the webhook goes once the policies stand.
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

  /** The leader alone knows that a policy is refused. Its webhook configuration leads to all replicas. */
  async #followLeader(signal: AbortSignal): Promise<void> {
    const { client, settings, env, webhook } = this.#options;
    if (settings.spec.mode !== "Auto") return;
    const { name } = ownedMetadata(env.installation, this.rules.name);
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
    const { installation } = env;
    try {
      const pod = namespace !== undefined && podName !== undefined && { namespace, installation, podName };
      if (pod && (await hasOthers(client, pod, signal))) return;
      await this.#keepers.turnPoliciesOff(signal);
      log.info("the last replica ends: its policies are off until berth runs again", {
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

/** Applied to what is there: the fields that are required stand already. */
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
