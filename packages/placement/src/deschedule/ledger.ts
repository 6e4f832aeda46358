/** What Berth remembers of its evictions. Times are monotonic milliseconds. A restart forgets it. */
import type { Pod } from "@berth/kube";
import { type Reason, reasons } from "../api/reasons.ts";
import { controllerOf } from "../node/owner-reference.ts";

export const BREAKER_WINDOW_MS: number = 5 * 60_000;
/** For how long Berth waits for a replacement before the eviction no longer counts for the limits. */
export const REPLACEMENT_MS: number = 10 * 60_000;
/** For how long Berth waits for the answer to a request before other pods may go. */
const ANSWER_MS = 60_000;
/** After so many pods that came back to wrong nodes Berth leaves the owner alone. */
export const MAX_RETURNS = 3;
/** After its start Berth waits for replacements of pods that are gone: nothing shows that it has evicted them before. */
export const START_MS = 10_000;
/** Waits after refusals of one pod double from the first to the last of these. */
const REST_MS = 10_000;
const MAX_REST_MS: number = 5 * 60_000;

export interface Eviction {
  readonly pod: Pod;
  readonly rule: string;
  readonly owner: string;
  readonly node: string;
  readonly namespace: string;
  /** Where the pod fits; absent when that was not checked. */
  readonly target?: string;
  readonly message: string;
  readonly atMs: number;
  /** Its request was sent: it may happen, whatever is decided later. */
  isSent?: true;
  /** The API server has accepted it. */
  isAccepted: boolean;
  /** UIDs of the pods of the owner at that time. */
  readonly known: ReadonlySet<string>;
}

export interface Rest {
  readonly untilMs: number;
  readonly waitMs: number;
  readonly reason: Reason;
  readonly message: string;
}

interface Begun {
  readonly rule: string;
  readonly namespace: string;
  readonly atMs: number;
  readonly uid: string;
}

interface OwnerRecord {
  /** The policy of the last eviction. */
  rule: string;
  /** By UID, the pods that came after an eviction. `true`: neither Ready nor on a wrong node so far. */
  readonly replacements: Map<string, boolean>;
  returns: number;
  /** Each eviction counts for one return at most: other new pods of the owner are not its doing. */
  evictions: number;
}

/** Too many pods of a policy would go at once: those of one namespace, or of `EVERY_NAMESPACE`. */
export interface Freeze {
  readonly rule: string;
  readonly namespace: string;
}

export const EVERY_NAMESPACE = "";

/** What `decideEvictions` reads. */
export interface LedgerView {
  /** No eviction before this time, because replacements of earlier ones may still be to come. 0: the time does not matter. */
  readonly quietUntilMs: number;
  /** By owner. */
  readonly inProgress: ReadonlyMap<string, Eviction>;
  /** Evictions that began after this time, oldest first. @param rule only those of this policy. */
  begunSince(atMs: number, rule?: string): readonly Begun[];
  restOf(uid: string): Rest | undefined;
  isGivenUp(owner: string): boolean;
  /** When evictions were last too many at once. */
  frozenAt(freeze: Freeze): number | undefined;
}

export const emptyLedger: LedgerView = {
  quietUntilMs: 0,
  inProgress: new Map(),
  begunSince: () => [],
  restOf: () => undefined,
  isGivenUp: () => false,
  frozenAt: () => undefined,
};

/** The owner of a pod: its controller, else the pod itself. With its namespace, because any pod can name any uid. */
export function ownerOf({ metadata = {} }: Pod): string {
  return `${metadata.namespace ?? ""}/${controllerOf(metadata)?.uid ?? metadata.uid ?? ""}`;
}

/** True for a pod that its kubelet reports as Ready. */
export function isReady({ status }: Pod): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") ?? false;
}

export class EvictionLedger implements LedgerView {
  readonly #inProgress = new Map<string, Eviction>();
  /** Oldest first; none older than the window of the breaker. */
  #begun: readonly Begun[] = [];
  readonly #rests = new Map<string, Rest>();
  readonly #owners = new Map<string, OwnerRecord>();
  /** By policy and namespace. */
  readonly #frozen = new Map<string, Map<string, number>>();
  #quietUntilMs: number | undefined;

  get quietUntilMs(): number {
    return this.#quietUntilMs ?? 0;
  }

  /** Berth sees pods. Only the first call counts. */
  start(nowMs: number): void {
    this.#quietUntilMs ??= nowMs + START_MS;
  }

  get inProgress(): ReadonlyMap<string, Eviction> {
    return this.#inProgress;
  }

  begunSince(atMs: number, rule?: string): readonly Begun[] {
    return this.#begun.filter((one) => one.atMs > atMs && (rule === undefined || one.rule === rule));
  }

  restOf(uid: string): Rest | undefined {
    return this.#rests.get(uid);
  }

  isGivenUp(owner: string): boolean {
    return (this.#owners.get(owner)?.returns ?? 0) >= MAX_RETURNS;
  }

  /** Owners that Berth leaves alone. */
  get givenUp(): readonly string[] {
    return [...this.#owners.keys()].filter((owner) => this.isGivenUp(owner));
  }

  frozenAt({ rule, namespace }: Freeze): number | undefined {
    return this.#frozen.get(rule)?.get(namespace);
  }

  /** Namespaces of which the policy evicts no pod now. */
  frozen(rule: string): readonly string[] {
    return [...(this.#frozen.get(rule)?.keys() ?? [])];
  }

  begin(eviction: Eviction): void {
    const { owner, rule, namespace, atMs, pod } = eviction;
    const uid = pod.metadata?.uid ?? "";
    this.#inProgress.set(owner, eviction);
    const record = this.#record(eviction);
    record.rule = rule;
    record.evictions += 1;
    const recent = this.#begun.filter((one) => one.atMs > atMs - BREAKER_WINDOW_MS);
    this.#begun = [...recent, { rule, namespace, atMs, uid }];
  }

  send(uid: string): void {
    const eviction = this.#of(uid);
    if (eviction !== undefined) eviction.isSent = true;
  }

  accept(uid: string): void {
    const eviction = this.#of(uid);
    if (eviction !== undefined) eviction.isAccepted = true;
    this.#rests.delete(uid);
  }

  /** The eviction did not happen. @param waitMs the wait that the server asked for. Budgets double it. */
  refuse(
    uid: string,
    why: { readonly reason: Reason; readonly message: string },
    waitMs: number,
    nowMs: number,
  ): void {
    if (!this.withdraw(uid)) return;
    const before = this.#rests.get(uid)?.waitMs ?? REST_MS / 2;
    const isBudget = why.reason === reasons.DisruptionBudget;
    const wait = isBudget ? Math.max(waitMs, Math.min(before * 2, MAX_REST_MS)) : waitMs;
    this.#rests.set(uid, { ...why, waitMs: wait, untilMs: nowMs + wait });
  }

  /** The eviction was not sent, because the pod fits again. @returns false when there is none to withdraw. */
  withdraw(uid: string): boolean {
    const eviction = this.#of(uid);
    if (eviction === undefined || eviction.isAccepted) return false;
    this.#begun = this.#begun.filter((one) => one.uid !== uid);
    return this.#inProgress.delete(eviction.owner);
  }

  /** Records of what there is too much now. What was too much before keeps it for the window. */
  freeze(freezes: Iterable<Freeze>, nowMs: number): void {
    for (const { rule, namespace } of freezes)
      this.#frozen.set(rule, (this.#frozen.get(rule) ?? new Map()).set(namespace, nowMs));
    for (const [rule, of] of this.#frozen) {
      for (const [namespace, atMs] of of) if (nowMs - atMs >= BREAKER_WINDOW_MS) of.delete(namespace);
      if (of.size === 0) this.#frozen.delete(rule);
    }
  }

  /**
   * A policy that the user has changed begins anew, and may not want what was not sent yet. What has gone counts on.
   * @param unchanged the policies in force that are as before.
   */
  forgetPolicies(unchanged: ReadonlySet<string>): void {
    const isChanged = ({ rule }: { readonly rule: string }): boolean => !unchanged.has(rule);
    for (const one of this.#inProgress.values())
      if (isChanged(one) && !one.isSent) this.withdraw(one.pod.metadata?.uid ?? "");
    for (const rule of this.#frozen.keys()) if (isChanged({ rule })) this.#frozen.delete(rule);
    for (const [owner, record] of this.#owners) if (isChanged(record)) this.#owners.delete(owner);
    for (const one of this.#inProgress.values()) if (isChanged(one)) this.#record(one).evictions = 1;
  }

  /**
   * Looks at the pods of owners whose pods were evicted. An eviction ends when a pod that came after it is Ready, or
   * after `REPLACEMENT_MS`. Without a controller there is no new pod, so it ends when the pod is gone.
   * @returns evictions that ended without a new pod of the controller.
   */
  observe(
    podsOf: (owner: string) => readonly Pod[],
    isLost: (pod: Pod) => boolean,
    nowMs: number,
  ): readonly Eviction[] {
    const missing: Eviction[] = [];
    for (const [owner, eviction] of this.#inProgress) {
      const pods = podsOf(owner);
      const gone = !pods.some(({ metadata }) => metadata?.uid === eviction.pod.metadata?.uid);
      const come = pods.filter(({ metadata }) => !eviction.known.has(metadata?.uid ?? ""));
      if (gone) eviction.isAccepted = true;
      const { replacements } = this.#record(eviction);
      for (const { metadata: { uid = "" } = {} } of come)
        if (!replacements.has(uid)) replacements.set(uid, true);
      const isWhole = gone && (controllerOf(eviction.pod.metadata ?? {}) === undefined || come.some(isReady));
      if (!isWhole && nowMs < endOf(eviction)) continue;
      this.#inProgress.delete(owner);
      if (isWhole || !eviction.isAccepted || come.length > 0) continue;
      this.#record(eviction).returns += 1;
      missing.push(eviction);
    }
    for (const [owner, record] of this.#owners) {
      const pods = podsOf(owner);
      const here = new Set(pods.map(({ metadata }) => metadata?.uid ?? ""));
      for (const pod of pods) {
        const uid = pod.metadata?.uid ?? "";
        if (!record.replacements.get(uid)) continue;
        // Only a pod that comes to a wrong node counts, not one whose node becomes wrong later.
        if (isLost(pod)) record.returns = Math.min(record.returns + 1, record.evictions);
        if (isLost(pod) || isReady(pod)) record.replacements.set(uid, false);
      }
      for (const uid of record.replacements.keys()) if (!here.has(uid)) record.replacements.delete(uid);
      const isSettled = record.returns === 0 && ![...record.replacements.values()].includes(true);
      if ((pods.length === 0 || isSettled) && !this.#inProgress.has(owner)) this.#owners.delete(owner);
    }
    for (const [uid, { untilMs }] of this.#rests) if (nowMs - untilMs >= MAX_REST_MS) this.#rests.delete(uid);
    return missing;
  }

  /** Until time alone ends an eviction or a freeze, ms; `Infinity` without one. */
  endsInMs(nowMs: number): number {
    const frozen = this.#frozen.values().flatMap((of) => of.values().map((atMs) => atMs + BREAKER_WINDOW_MS));
    return Math.max(1, Math.min(...this.#inProgress.values().map(endOf), ...frozen) - nowMs);
  }

  #of(uid: string): Eviction | undefined {
    return this.#inProgress.values().find(({ pod }) => pod.metadata?.uid === uid);
  }

  #record({ owner, rule }: Pick<Eviction, "owner" | "rule">): OwnerRecord {
    const record = this.#owners.get(owner) ?? { rule, replacements: new Map(), returns: 0, evictions: 0 };
    this.#owners.set(owner, record);
    return record;
  }
}

function endOf({ atMs, isAccepted }: Eviction): number {
  return atMs + (isAccepted ? REPLACEMENT_MS : ANSWER_MS);
}
