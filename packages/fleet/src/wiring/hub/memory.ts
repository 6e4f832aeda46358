/** What the process that leads remembers of its requests. Another one begins with none of it, and is as careful. */
import type { Clock, ClusterName, EngagedCluster } from "@berth/runtime";
import { LATE_MS } from "../../drivers/direct/withdraw.ts";

/** An uncached read that found nothing. */
interface Proof {
  readonly cluster: ClusterName;
  /** Monotonic, when it was begun. */
  readonly atMs: number;
  readonly restores: number;
}

/** The oldest of more are forgotten. Then they are proven again: by another read, or by a Withdrawal. */
const MOST = 10_000;

/** Keeps the newest. */
export class Latest<V> extends Map<string, V> {
  override set(key: string, value: V): this {
    this.delete(key);
    super.set(key, value);
    for (const oldest of this.keys()) {
      if (this.size <= MOST) break;
      this.delete(oldest);
    }
    return this;
  }
}

export class HubMemory {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #proofs = new Latest<Proof>();
  readonly #unanswered = new Map<string, number>();
  readonly #provenGone = new Latest<true>();
  readonly #absent = new Latest<true>();
  readonly #doubts = new Latest<true>();
  readonly #generations = new Latest<number>();
  readonly #refusals = new Latest<string>();
  #leaderSinceMs = Number.POSITIVE_INFINITY;

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** This process leads from now on. */
  begin(): void {
    this.#leaderSinceMs = this.#clock.monotonic();
  }

  /** A creation was sent, and may arrive although no answer has said so. @param place which object, in which cluster. */
  sent(place: string): void {
    const nowMs = this.#clock.monotonic();
    if (this.#unanswered.size >= MOST)
      for (const [other, sentMs] of this.#unanswered)
        if (nowMs - sentMs >= LATE_MS) this.#unanswered.delete(other);
    this.#unanswered.set(place, nowMs);
  }

  answered(place: string): void {
    this.#unanswered.delete(place);
  }

  isLatePossible(place: string): boolean {
    const nowMs = this.#clock.monotonic();
    const sentMs = this.#unanswered.get(place);
    if (sentMs !== undefined && nowMs - sentMs >= LATE_MS) this.#unanswered.delete(place);
    return nowMs - this.#leaderSinceMs < LATE_MS || this.#unanswered.has(place);
  }

  /** A read that began at `atMs` did not find it. */
  missed(place: string, { name, restores }: EngagedCluster, atMs: number): void {
    if (!this.#proofs.has(place)) this.#proofs.set(place, { cluster: name, atMs, restores });
  }

  /** It was there, or its cluster was away. */
  unprove(place: string): void {
    this.#proofs.delete(place);
  }

  hasMissed(place: string): boolean {
    return this.#proofs.has(place);
  }

  /** For how long there has been a proof: Berth in the cell renewed its Lease after the read. Monotonic ms. */
  provenForMs(place: string, cluster: EngagedCluster | undefined): number | undefined {
    const proof = this.#proofs.get(place);
    if (proof === undefined || cluster === undefined) return undefined;
    const isSame = proof.cluster === cluster.name && proof.restores === cluster.restores;
    if (!isSame || cluster.reach.is !== "yes") {
      this.#proofs.delete(place);
      return undefined;
    }
    return (cluster.lease?.changedAt ?? 0) > proof.atMs ? this.#clock.monotonic() - proof.atMs : undefined;
  }

  /** The finalizer on the hub went, with a proof or a Withdrawal for each cell. */
  gone(sourceUid: string): void {
    this.#provenGone.set(sourceUid, true);
  }

  isProvenGone(sourceUid: string): boolean {
    return this.#provenGone.has(sourceUid);
  }

  forget(sourceUid: string): void {
    this.#provenGone.delete(sourceUid);
  }

  /**
   * This cluster has no object with this uid any more: its watch told of the deletion, or an uncached read did not find
   * it. Only the cluster itself can say that, so that no cell ends what a project wants.
   */
  absent(cluster: ClusterName, uid: string): void {
    this.#absent.set(`${cluster} ${uid}`, true);
  }

  isAbsent(cluster: ClusterName, uid: string): boolean {
    return this.#absent.has(`${cluster} ${uid}`);
  }

  /** A cell has a later generation of this source than its project seems to want. */
  doubt(sourceUid: string): void {
    this.#doubts.set(sourceUid, true);
  }

  isDoubted(sourceUid: string): boolean {
    return this.#doubts.has(sourceUid);
  }

  /** An uncached read has shown this generation of the source. */
  confirm(sourceUid: string, generation: number): void {
    this.#doubts.delete(sourceUid);
    this.#generations.set(sourceUid, generation);
  }

  confirmedGeneration(sourceUid: string): number | undefined {
    return this.#generations.get(sourceUid);
  }

  /** Why the cell of a deployment of the hub did not take it last. */
  refusalOf(uid: string): string | undefined {
    return this.#refusals.get(uid);
  }

  /** @param why absent: it took it. `true`: that is news. */
  refused(uid: string, why: string | undefined): boolean {
    if (this.#refusals.get(uid) === why) return false;
    if (why === undefined) this.#refusals.delete(uid);
    else this.#refusals.set(uid, why);
    return true;
  }
}
