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

export class HubMemory {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #proofs = new Map<string, Proof>();
  readonly #unanswered = new Map<string, number>();
  readonly #provenGone = new Set<string>();
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
    this.#unanswered.set(place, this.#clock.monotonic());
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
    this.#provenGone.add(sourceUid);
  }

  isProvenGone(sourceUid: string): boolean {
    return this.#provenGone.has(sourceUid);
  }

  forget(sourceUid: string): void {
    this.#provenGone.delete(sourceUid);
  }
}
