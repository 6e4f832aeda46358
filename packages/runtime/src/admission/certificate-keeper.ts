import { isApiError, type KubeClient, type RequestOptions, type Secret, secrets } from "@berth/kube";
import { type Clock, systemClock } from "../clock.ts";
import type { Component, Running } from "../component.ts";
import { type Controller, createController } from "../controller.ts";
import { createInformer, type Informer } from "../informer.ts";
import { clusterName, type ObjectKey } from "../key.ts";
import type { Logger } from "../log.ts";
import type { ReconcileResult } from "../reconcile.ts";
import type { CertificatePair } from "./certificate-authority.ts";
import {
  type CertificateContent,
  type CertificatePlan,
  faultOf,
  type Lifetimes,
  lifetimesOf,
  makeContent,
  NO_CONTENT,
  planCertificates,
  type StandingContent,
  takeOver,
} from "./certificate-content.ts";
import type { CertificateSource } from "./certificate-source.ts";
import { describeProblem } from "./refusal.ts";

/** The part of a client that a keeper needs: `list`, `watch`, `create` and `patch` of one Secret. */
export type SecretClient = Pick<KubeClient, "list" | "watch" | "create" | "patch">;

/** The Secret, and its use. */
export interface CertificateKeeperOptions {
  readonly client: SecretClient;
  readonly secret: { readonly namespace: string; readonly name: string };
  /** DNS names and IP addresses that clients call the server by; at least one. */
  readonly hosts: readonly string[];
  /**
   * Labels of our Secret. A Secret without them belongs to another
   * owner.
   */
  readonly labels: Readonly<Record<string, string>>;
  /** Names the component. Lower case, digits and dashes; default `certificates`. */
  readonly name?: string;
  /** The beginning of the authority's common name, default `webhook`. */
  readonly authorityName?: string;
  readonly log: Logger;
  /** Default: the machine's. */
  readonly clock?: Clock;
  /** How long an authority is valid, ms. Default ten years; at least three times `validMs`. */
  readonly caValidMs?: number;
  /** How long a serving certificate is valid, ms. Default 90 days. */
  readonly validMs?: number;
  /** Renewal this long before the end of a serving certificate, ms. Less than `validMs`; default a third of it. */
  readonly renewBeforeMs?: number;
  /** Called after `current` or `caBundle` changed. Must not throw. */
  readonly onChange?: () => void;
}

const FILES = {
  certificate: "tls.crt",
  key: "tls.key",
  authorities: "ca.crt",
  authorityKey: "ca.key",
} as const;

/** Timers use monotonic time and certificates wall time; the two diverge while a machine sleeps. */
const LOOK_AGAIN_MS = 60 * 60 * 1000;
/**
 * Writes within `WRITES_WINDOW_MS`. Normally there is one in weeks. More mean that another writer undoes them, such as
 * a replica whose clock is wrong.
 */
const MAX_WRITES = 10;
const WRITES_WINDOW_MS = 10 * 60 * 1000;

/**
 * Keeps an authority and a serving certificate signed by it in one Secret that all replicas share: `tls.crt`,
 * `tls.key`, `ca.crt` (every authority to trust) and `ca.key` (of the one that signs next).
 *
 * - Valid content of the Secret is used without a restart, from any writer. Invalid content (garbage, keys that do not
 *   match, wrong hosts, expired) is never used: the last valid one stays in use.
 * - A Secret of ours that is missing, invalid, or near its end is repaired. Every write is bound to the version that
 *   was read. So one replica wins, and the others use its result.
 * - A new authority is published first and signs later. It joins `ca.crt`, and so `caBundle`, when the present one has
 *   less than twice the life of a serving certificate left. It signs at the next regular renewal, at least an hour (or
 *   half of `renewBeforeMs`) later. The old authority stays in `ca.crt` until it expires, when nothing that it signed
 *   is valid. A new authority signs at once only when no valid certificate exists, as after the Secret was deleted.
 *   Clients then fail until they have learned of it.
 * - A Secret without our labels has another owner. It is used, and changed only when it is invalid and holds a
 *   `ca.key`. Without `ca.key` (cert-manager's) problems are only reported.
 */
export class CertificateKeeper implements Component, CertificateSource {
  readonly name: string;
  readonly #options: CertificateKeeperOptions;
  readonly #lifetimes: Lifetimes;
  readonly #labels: Readonly<Record<string, string>>;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #key: ObjectKey;
  readonly #informer: Informer<Secret>;
  readonly #controller: Controller;
  /** The content in use. */
  #good: StandingContent | undefined;
  /** The fault of the current content when another owner must repair it. */
  #foreignFault: string | undefined;
  /** Why repairs are paused. */
  #contested: string | undefined;
  /** The error of the last repair. */
  #failure: string | undefined;
  /** Times of recent writes, monotonic ms. */
  #writes: readonly number[] = [];
  #warned: string | undefined;

  /** @throws RangeError without hosts, or when the times contradict each other. */
  constructor(options: CertificateKeeperOptions) {
    const { client, secret, name = "certificates", clock = systemClock } = options;
    if (options.hosts.length === 0) throw new RangeError("a certificate needs at least one host");
    this.name = name;
    this.#options = options;
    this.#lifetimes = lifetimesOf(options);
    this.#labels = options.labels;
    this.#clock = clock;
    // Not "secret": a logger takes a field of that name for a credential.
    this.#log = options.log.with({ object: `${secret.namespace}/${secret.name}` });
    const cluster = clusterName("local");
    this.#key = { cluster, ...secret };
    this.#informer = createInformer({
      name: `${name}-informer`,
      client,
      cluster,
      resource: secrets,
      scope: { namespace: secret.namespace, fieldSelector: `metadata.name=${secret.name}` },
      // `start` must not wait: a process that may not read the Secret has other work too.
      eager: true,
      clock,
      log: options.log,
    });
    this.#controller = createController({
      name: `${name}-controller`,
      reconcile: (_, { signal }) => this.#reconcile(signal),
      sources: [{ start: (enqueue) => this.#informer.subscribe({ onChange: () => enqueue(this.#key) }) }],
      concurrency: 1,
      // A namespace that was created should be noticed soon.
      slowRecheckMs: 60_000,
      queue: { backoff: { capMs: 30_000 } },
      clock,
      log: options.log,
    });
  }

  current(): CertificatePair | undefined {
    return this.#good?.pair;
  }

  caBundle(): string | undefined {
    return this.#good?.bundle;
  }

  problem(): string | undefined {
    const { namespace, name } = this.#options.secret;
    const cause =
      this.#failure ??
      this.#foreignFault ??
      this.#contested ??
      this.#informer.problem() ??
      this.#controller.problem?.();
    const where = `secret "${name}" in namespace "${namespace}"`;
    if (this.#good === undefined)
      return `${where}: no certificate yet${cause === undefined ? "" : `: ${cause}`}`;
    const fault = cause ?? this.#good.faultAt(this.#clock.now());
    return fault === undefined ? undefined : `${where}: ${fault}`;
  }

  /** Resolves at once: until there is a certificate, `current` gives none and `problem` says why. */
  async start(signal: AbortSignal): Promise<Running> {
    const informer = await this.#informer.start(signal);
    const controller = await this.#controller.start(signal);
    // A missing Secret causes no change event.
    const synced = this.#informer
      .whenSynced(signal)
      .then((yes) => yes && this.#controller.enqueue(this.#key));
    const ended = Promise.all([informer.ended, controller.ended, synced]).then(() => undefined);
    return { ended, drain: () => controller.drain?.() ?? Promise.resolve() };
  }

  async #reconcile(signal: AbortSignal): Promise<ReconcileResult | undefined> {
    if (!this.#informer.synced) return undefined;
    try {
      const result = await this.#lookAt(this.#informer.get(this.#key), signal);
      this.#failure = undefined;
      return result;
    } catch (error) {
      // Another replica was faster, and its result will arrive.
      const overtaken = isApiError(error, "conflict", "alreadyExists", "uidMismatch");
      if (!overtaken && !signal.aborted) this.#failure = describeProblem(error);
      throw error;
    }
  }

  async #lookAt(secret: Secret | undefined, signal: AbortSignal): Promise<ReconcileResult | undefined> {
    const { hosts } = this.#options;
    const nowMs = this.#clock.now();
    const content = secret === undefined ? NO_CONTENT : contentOf(secret);
    const fault = faultOf(content, hosts, nowMs);
    if (fault === undefined) this.#takeOver(content);
    const ours = secret === undefined || isLabelled(secret, this.#labels);
    const plan = planCertificates({ content, ours, hosts, lifetimes: this.#lifetimes, nowMs });
    this.#foreignFault =
      plan.step === "leave" ? `${fault ?? "it is not usable"}; its owner must repair it` : undefined;
    this.#contested = undefined;
    if (plan.step === "leave") return { recheckAfterMs: LOOK_AGAIN_MS };
    if (plan.step !== "wait") return this.#change(plan, { secret, content, nowMs, signal });
    if (plan.warning !== undefined && plan.warning !== this.#warned) {
      this.#log.warn("the owner of a certificate has not renewed it", { warning: plan.warning });
    }
    this.#warned = plan.warning;
    return { recheckAfterMs: Math.min(plan.untilMs - nowMs, LOOK_AGAIN_MS) };
  }

  #takeOver(content: CertificateContent): void {
    const before = this.#good;
    this.#good = takeOver(content, before);
    if (this.#good === before) return;
    this.#log.info("took a certificate over");
    this.#options.onChange?.();
  }

  /** Its own writes take effect when the informer delivers them, like those of others. */
  async #change(
    plan: Exclude<CertificatePlan, { step: "wait" | "leave" }>,
    found: { secret: Secret | undefined; content: CertificateContent; nowMs: number; signal: AbortSignal },
  ): Promise<ReconcileResult | undefined> {
    const { client, secret: of, hosts, authorityName } = this.#options;
    const { secret, content, nowMs, signal } = found;
    const waitMs = this.#mustWaitMs();
    if (waitMs > 0) {
      this.#log.warn("another writer keeps undoing the changes", { waitMs });
      this.#contested = `another writer keeps undoing the changes: ${plan.why}`;
      return { recheckAfterMs: waitMs };
    }
    const name = authorityName === undefined ? {} : { name: authorityName };
    const made = await makeContent(plan, { content, hosts, lifetimes: this.#lifetimes, nowMs, ...name });
    const request: RequestOptions = { signal };
    if (secret === undefined) await client.create(secrets, toSecret(made, of, this.#labels), request);
    else await client.patch(secrets, of, { type: "merge", body: toPatch(made, secret) }, request);
    this.#writes = [...this.#writes, this.#clock.monotonic()];
    this.#log.info("renewed certificates", { step: plan.step, why: plan.why });
    return undefined;
  }

  #mustWaitMs(): number {
    const nowMs = this.#clock.monotonic();
    this.#writes = this.#writes.filter((atMs) => nowMs - atMs < WRITES_WINDOW_MS);
    const [oldest] = this.#writes;
    return oldest === undefined || this.#writes.length < MAX_WRITES ? 0 : oldest + WRITES_WINDOW_MS - nowMs;
  }
}

function contentOf({ data = {} }: Secret): CertificateContent {
  const text = (file: string): string => Buffer.from(data[file] ?? "", "base64").toString("utf8");
  return {
    certificate: text(FILES.certificate),
    key: text(FILES.key),
    authorities: text(FILES.authorities),
    authorityKey: text(FILES.authorityKey),
  };
}

function toData(content: CertificateContent): Record<string, string> {
  const base64 = (text: string): string => Buffer.from(text).toString("base64");
  return {
    [FILES.certificate]: base64(content.certificate),
    [FILES.key]: base64(content.key),
    [FILES.authorities]: base64(content.authorities),
    [FILES.authorityKey]: base64(content.authorityKey),
  };
}

function toSecret(
  content: CertificateContent,
  metadata: CertificateKeeperOptions["secret"],
  labels: Readonly<Record<string, string>>,
): Secret {
  return { type: "kubernetes.io/tls", metadata: { ...metadata, labels }, data: toData(content) };
}

/** Bound to the version that was read; its type and other data stay. */
function toPatch(content: CertificateContent, { metadata }: Secret): object {
  return {
    metadata: { uid: metadata?.uid, resourceVersion: metadata?.resourceVersion },
    data: toData(content),
  };
}

function isLabelled({ metadata }: Secret, labels: Readonly<Record<string, string>>): boolean {
  return Object.entries(labels).every(([key, value]) => metadata?.labels?.[key] === value);
}
