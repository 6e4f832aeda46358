import {
  type ConnectOptions,
  connect,
  type KubeClient,
  type Lease,
  type ReplaceableCredential,
  replaceableCredential,
} from "@berth/kube";
import type { Random } from "../backoff.ts";
import { type Clock, sleep } from "../clock.ts";
import { EventRecorder } from "../events.ts";
import { type GuardedClient, type GuardOptions, guardClient } from "../guarded-client.ts";
import type { ClusterName } from "../key.ts";
import type { Logger } from "../log.ts";
import type { MetricsRegistry } from "../metrics.ts";
import type { Attention } from "./attention.ts";
import { PROBE_TIMEOUT_MS, type ProbeResult, type ProbeTarget, probe, readIdentity } from "./probe.ts";
import type { ReadCluster } from "./proven-reader.ts";
import {
  isEdge,
  isOther,
  notProbed,
  type Observation,
  observe,
  type Reach,
  type Reachability,
  type Uid,
} from "./reachability.ts";

/** How to reach a cluster, and which one it has to be. */
export interface ClusterAccess extends Partial<ProbeTarget> {
  /**
   * A server and a credential: the cluster gets connections of its own, and one more for probes. A client: it shares the
   * connections of the client, such as projects behind one host do. The caller closes that client.
   */
  readonly to: ConnectOptions | KubeClient;
  /** The identity that it must have. Default: the first one seen. */
  readonly identity?: Uid;
  /** The `version` that an earlier process has seen last. */
  readonly version?: string;
}

/** A cluster that has joined and was probed. */
export interface EngagedCluster {
  readonly name: ClusterName;
  /**
   * Requests reject at once with `unreachable` while the cluster is not reached. It is replaced when that changes: ask
   * for it with each piece of work.
   */
  readonly client: GuardedClient;
  readonly reach: Reach;
  /** `undefined` before it was read for the first time. */
  readonly identity: Uid | undefined;
  /** See `Reachability.version`. */
  readonly version: string | undefined;
  /** How often it was found restored from a backup since it joined. */
  readonly restores: number;
  /**
   * The Lease of `ClusterAccess.lease`, and when it was seen to change: monotonic milliseconds. Of the first one, when it
   * says that it was renewed.
   */
  readonly lease: { readonly object: Lease; readonly changedAt: number } | undefined;
  /** For how long the Lease has not changed, ms, but for what this process stood still. Infinity: there is none. */
  leaseSilentMs(): number;
  /** It has more objects than `ClusterSetOptions.limit`: the text says of which kind, with figures. */
  readonly excess: string | undefined;
  /** Writes Events into this cluster. */
  readonly events: EventRecorder;
}

/** What every cluster of a set shares. */
export interface ClusterCommon extends Pick<GuardOptions, "mayWrite" | "grantOf"> {
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: MetricsRegistry;
  readonly random?: Random;
  readonly reportingController: string;
  readonly reportingInstance: string;
}

/** What all connections of a set share. */
export interface ConnectionCommon extends ClusterCommon {
  readonly attention: Pick<Attention, "nowMs">;
}

/** From the start of one probe to that of the next, at most. Milliseconds. */
export const PROBE_INTERVAL_MS = 5_000;
/** From the end of a probe that failed to the next one. Milliseconds. */
const RETRY_MS = 1_000;

/** As many writes as a queue of the cluster has workers. */
const WRITE_CONNECTIONS = 4;
/** A connection without an answer for this long is not waited for when the cluster comes back. Milliseconds. */
const SILENCE_MS = 10_000;

const DEFAULT_TARGET: ProbeTarget = {
  lease: { namespace: "kube-system", name: "kube-controller-manager" },
  identityNamespace: "kube-system",
};

/** One membership of a cluster. It never fails: all that goes wrong is part of its reach. */
export class Connection implements ReadCluster, EngagedCluster {
  readonly name: ClusterName;
  readonly events: EventRecorder;
  readonly #log: Logger;
  readonly #common: ConnectionCommon;
  readonly #target: ProbeTarget;
  readonly #credential: ReplaceableCredential | undefined;
  readonly #client: KubeClient;
  readonly #probes: KubeClient;
  readonly #owned: readonly KubeClient[];
  readonly #onEdge: () => void;
  readonly #waiting = new Set<() => void>();
  readonly #excess = new Map<string, string>();
  #state: Reachability;
  #lease: EngagedCluster["lease"];
  /** When it changed, by `attention`. */
  #leaseAttendedAt = Number.NEGATIVE_INFINITY;
  #current: { readonly guarded: GuardedClient; readonly end: AbortController };
  #woken = new AbortController();

  /** @param onEdge the reach, the epoch or the excess has changed. Must not throw. */
  constructor(name: ClusterName, access: ClusterAccess, common: ConnectionCommon, onEdge: () => void) {
    const log = common.log.with({ cluster: name });
    this.name = name;
    this.#log = log;
    this.#common = common;
    this.#onEdge = onEdge;
    this.#target = { ...DEFAULT_TARGET, ...access };
    this.#state = notProbed({ identity: access.identity, version: access.version });
    const { to } = access;
    if (isClient(to)) {
      this.#credential = undefined;
      this.#client = to;
      this.#owned = [];
      this.#probes = to.under("", { cluster: name });
    } else {
      const credential = replaceableCredential(to.credential, to.ca);
      const options = { maxWriteConnections: WRITE_CONNECTIONS, silenceMs: SILENCE_MS, ...to, credential };
      this.#credential = credential;
      this.#client = connect({ ...options, cluster: name });
      this.#probes = connect({ ...options, readsOneByOne: true, cluster: name });
      this.#owned = [this.#client, this.#probes];
    }
    this.#current = this.#newClient();
    this.events = new EventRecorder({
      ...common,
      log,
      client: {
        create: (...request) => this.client.create(...request),
        patch: (...request) => this.client.patch(...request),
      },
    });
  }

  /** Whether the first probe has ended. Before that nothing but the name may be used. */
  get isEngaged(): boolean {
    return this.#state.reach !== undefined;
  }

  get reach(): Reach {
    if (this.#state.reach === undefined) throw new Error(`cluster ${this.name} was not probed yet`);
    return this.#state.reach;
  }

  get isReached(): boolean {
    return this.#state.reach?.is === "yes";
  }

  get identity(): Uid | undefined {
    return this.#state.identity;
  }

  get version(): string | undefined {
    return this.#state.version;
  }

  get restores(): number {
    return this.#state.restores;
  }

  get epoch(): number {
    return this.#state.epoch;
  }

  get lease(): EngagedCluster["lease"] {
    return this.#lease;
  }

  leaseSilentMs(): number {
    return this.#common.attention.nowMs - this.#leaseAttendedAt;
  }

  get excess(): string | undefined {
    return this.#excess.values().next().value;
  }

  /** @param excess absent: a snapshot of the kind ended within the limit. */
  exceed(kind: string, excess: string | undefined): void {
    if (this.#excess.get(kind) === excess) return;
    if (excess === undefined) this.#excess.delete(kind);
    else {
      this.#excess.set(kind, excess);
      this.#log.warn("the cluster is too large to be read", { excess });
    }
    this.#onEdge();
  }

  get client(): GuardedClient {
    return this.#current.guarded;
  }

  get clientEnd(): AbortSignal {
    return this.#current.end.signal;
  }

  /**
   * Uses another credential and authority from the next request on. Watches go on.
   * @returns false when the access differs in more than that, so that the cluster has to join anew.
   */
  renew(before: ClusterAccess, next: ClusterAccess): boolean {
    if (this.#credential === undefined || !isSamePlace(before, next) || isClient(next.to)) return false;
    this.#credential.replace(next.to.credential, next.to.ca);
    this.#woken.abort();
    return true;
  }

  whenReached(signal: AbortSignal | undefined): Promise<boolean> {
    if (this.isReached || signal?.aborted) return Promise.resolve(this.isReached);
    return new Promise((resolve) => {
      const end = (): void => {
        this.#waiting.delete(end);
        signal?.removeEventListener("abort", end);
        resolve(this.isReached);
      };
      this.#waiting.add(end);
      signal?.addEventListener("abort", end, { once: true });
    });
  }

  async prove(signal: AbortSignal | undefined): Promise<void> {
    const options = { timeoutMs: PROBE_TIMEOUT_MS, ...(signal && { signal }) };
    const uid = await readIdentity(this.client, this.#target.identityNamespace, options);
    // The probe may reach another server than the one that answers here.
    if (isOther(this.#state, uid)) this.#observe({ is: "answered", uid, version: "" });
  }

  behind(version: string): void {
    this.#observe({ is: "behind", version });
  }

  /** Probes until the signal aborts, and then ends every request. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      while (!signal.aborted) await this.#probe(signal);
    } finally {
      this.#current.end.abort();
      for (const end of this.#waiting) end();
      await Promise.all([this.#probes.close(), ...this.#owned.map((client) => client.close())]);
    }
  }

  async #probe(signal: AbortSignal): Promise<void> {
    const { clock, attention, random = Math.random } = this.#common;
    const [startedAt, attendedAt] = [clock.monotonic(), attention.nowMs];
    const result = await probe(this.#probes, this.#target, signal);
    if (signal.aborted) return;
    this.#take(result, clock.monotonic() - startedAt - (attention.nowMs - attendedAt));
    // Clusters that joined together drift apart.
    const intervalMs = PROBE_INTERVAL_MS * (1 - random() / 5);
    const isFailed = result.observation.is === "failed";
    const restMs = isFailed ? RETRY_MS : startedAt + intervalMs - clock.monotonic();
    await sleep(clock, restMs, AbortSignal.any([signal, this.#woken.signal]));
    this.#woken = new AbortController();
  }

  #take({ observation, lease }: ProbeResult, lostMs: number): void {
    const { resourceVersion } = lease?.metadata ?? {};
    const before = this.#lease;
    if (lease !== undefined && before?.object.metadata?.resourceVersion !== resourceVersion) {
      const { clock, attention } = this.#common;
      const ageMs = before ? 0 : this.#ageOf(lease);
      this.#lease = { object: lease, changedAt: clock.monotonic() - ageMs };
      this.#leaseAttendedAt = attention.nowMs - ageMs;
    }
    this.#observe(observation, lostMs);
  }

  /** How old one is that was not seen before, as it says itself, ms. It may be of a holder that is long gone. */
  #ageOf({ spec }: Lease): number {
    const ageMs = this.#common.clock.now() - Date.parse(spec?.renewTime ?? "");
    return Number.isNaN(ageMs) ? Number.POSITIVE_INFINITY : Math.max(0, ageMs);
  }

  #observe(observation: Observation, lostMs = 0): void {
    const { clock, attention } = this.#common;
    const before = this.#state;
    const now = { wallMs: clock.now(), monotonicMs: attention.nowMs, lostMs };
    this.#state = observe(before, observation, now);
    if (!isEdge(before, this.#state)) return;
    this.#report(before);
    this.#current.end.abort();
    this.#current = this.#newClient();
    if (this.isReached) for (const end of this.#waiting) end();
    this.#onEdge();
  }

  #report(before: Reachability): void {
    const { reach, restores, version } = this.#state;
    if (restores > before.restores)
      this.#log.warn("the cluster was restored from a backup", { version, before: before.version });
    if (reach?.is === "yes" && before.reach?.is !== "yes") this.#log.info("the cluster is reached");
    if (reach?.is === "no") this.#log.warn("the cluster is not reached", { ...reach });
  }

  /** The requests of one client end together. Those of the next one begin with no memory of refusals. */
  #newClient(): { readonly guarded: GuardedClient; readonly end: AbortController } {
    const end = new AbortController();
    const client = this.#client.under("", { cluster: this.name });
    end.signal.addEventListener("abort", () => void client.close(), { once: true });
    const unreachable = (): string | undefined => {
      const { reach } = this.#state;
      if (reach?.is === "yes") return undefined;
      return reach === undefined
        ? "the cluster was not probed yet"
        : `the cluster is not reached (${reach.cause})`;
    };
    return { guarded: guardClient(client, { ...this.#common, log: this.#log, unreachable }), end };
  }
}

function isClient(to: ClusterAccess["to"]): to is KubeClient {
  return "watch" in to;
}

/** Do two accesses differ in the credential and the authority alone? */
function isSamePlace(one: ClusterAccess, other: ClusterAccess): boolean {
  const place = ({ to, identity, identityNamespace, lease }: ClusterAccess): string => {
    const { server, serverName } = isClient(to) ? { server: to.server, serverName: undefined } : to;
    return JSON.stringify([server, serverName, identity, identityNamespace, lease]);
  };
  return isClient(one.to) === isClient(other.to) && place(one) === place(other);
}
