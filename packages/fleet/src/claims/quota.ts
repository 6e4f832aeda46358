/** What is known of the quota of one Instance: from the watch of claims, and from reads at growing intervals. */
import { compareResourceVersions, type Namespace } from "@berth/kube";
import type { Clock, ClusterName, Lister, ObjectKey } from "@berth/runtime";
import { claimName } from "../api/keys.ts";
import type { ResourceClaim } from "../api/quota.ts";
import type { Instance } from "../api/workload.ts";
import type { FleetSpec } from "../fleet/document.ts";
import { isClaimOfAnother } from "../instance/claim.ts";
import { awaitsClaim, lookEveryMs } from "../instance/tiers.ts";
import type { QuotaSeen } from "../instance/view.ts";
import type { Claims } from "./claims.ts";
import { payerOf } from "./payer.ts";
import type { ClaimRef } from "./plane.ts";

export interface QuotaOptions {
  readonly spec: FleetSpec;
  /** Absent: there is no quota. */
  readonly claims: Claims | undefined;
  readonly cluster: ClusterName;
  /** Absent in mode `single`: the Fleet names the project. */
  readonly namespaces: Pick<Lister<Namespace>, "get"> | undefined;
  readonly clock: Clock;
}

/** The last look past the cache. */
interface Look {
  /** Monotonic ms. */
  readonly atMs: number;
  readonly answer?: QuotaSeen;
  /** What the cache had then. */
  readonly cached: string;
  /** Something waited for the claim then. */
  readonly isWaiting: boolean;
}

export class Quota {
  readonly #options: QuotaOptions;
  /** By uid of the Instance. */
  readonly #looks = new Map<string, Look>();

  constructor(options: QuotaOptions) {
    this.#options = options;
  }

  forget(uid: string): void {
    this.#looks.delete(uid);
  }

  /** Can no claim of this namespace be granted now: its project is not known, or the quota service does not work? */
  isDown(namespace: string): boolean {
    const { claims } = this.#options;
    if (claims === undefined) return false;
    const owner = this.#ownerOf(namespace);
    return "is" in owner || claims.isDown(owner.project);
  }

  /** Reads past the cache only when a look is due: see `lookEveryMs`. */
  async see(instance: Instance, signal: AbortSignal): Promise<QuotaSeen> {
    const { claims, clock } = this.#options;
    if (claims === undefined) return { is: "off" };
    const { uid = "", namespace = "" } = instance.metadata ?? {};
    const owner = this.#ownerOf(namespace);
    if ("is" in owner) return owner;
    const ref = refOf(owner, instance);
    const cached = claims.seen(ref);
    const known = this.#looks.get(uid);
    const nowMs = clock.monotonic();
    const isWatched = claims.watches(owner.project);
    const waits = awaitsClaim(instance);
    // The time to the first look past a watch counts from the start of the wait.
    const begins = isWatched && known?.isWaiting !== waits;
    const atMs = begins ? nowMs : (known?.atMs ?? -Infinity);
    const isDue = nowMs - atMs >= lookEveryMs(instance, clock.now());
    if (isDue && (waits || !isWatched)) return this.#ask(instance, () => claims.read(ref, signal));
    const { answer, cached: then = versionIn(cached) } = known ?? {};
    const isNewest = answer !== undefined && isLater(answer, then, cached);
    this.#looks.set(uid, { atMs, cached: then, isWaiting: waits, ...(isNewest && { answer }) });
    return isNewest ? answer : cached;
  }

  async create(instance: Instance, claim: ResourceClaim, signal: AbortSignal): Promise<QuotaSeen> {
    return this.#ask(instance, (claims, ref) => claims.create(ref, claim, signal));
  }

  async delete(instance: Instance, claim: ResourceClaim, signal: AbortSignal): Promise<QuotaSeen> {
    return this.#ask(instance, async (claims, ref) => {
      const answer = await claims.delete(ref, claim, signal);
      return claims.watches(ref.project) ? answer : claims.read(ref, signal);
    });
  }

  async #ask(
    instance: Instance,
    request: (claims: Claims, ref: ClaimRef) => Promise<QuotaSeen>,
  ): Promise<QuotaSeen> {
    const { claims, clock } = this.#options;
    const { uid = "", namespace = "" } = instance.metadata ?? {};
    const owner = this.#ownerOf(namespace);
    if (claims === undefined) return { is: "off" };
    if ("is" in owner) return owner;
    const ref = refOf(owner, instance);
    const cached = claims.seen(ref);
    const answer = await request(claims, ref);
    const atMs = clock.monotonic();
    this.#looks.set(uid, { atMs, answer, cached: versionIn(cached), isWaiting: awaitsClaim(instance) });
    return isLater(answer, versionIn(cached), claims.seen(ref)) ? answer : claims.seen(ref);
  }

  /**
   * Deletes the claim of an Instance that is gone. A process that was behind may have made it after that, and then it
   * would take quota, and the name, for ever. A cache is no proof that an Instance is gone. Clusters that share a
   * service under the default name cannot tell their claims apart, so there Berth deletes none.
   *
   * @param uid of the Instance that now has this name, as cached.
   * @param uidNow the same, from the API server.
   * @returns whether the claim is still there: the quota service does not work.
   */
  async sweep(
    { namespace, name }: Pick<ObjectKey, "namespace" | "name">,
    uid: string | undefined,
    uidNow: () => Promise<string | undefined>,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { claims, spec } = this.#options;
    const owner = this.#ownerOf(namespace);
    const isAlone = spec.quota?.from === "Cluster" || spec.cell !== "single";
    if (claims === undefined || "is" in owner || !isAlone) return false;
    const ref = { ...owner, name: claimName(name) };
    const seen = claims.seen(ref);
    const claim = seen.is === "read" && seen.claim.is === "there" ? seen.claim.value : undefined;
    const source = spec.cell;
    if (claim === undefined || claim.metadata?.deletionTimestamp !== undefined) return false;
    if (!isClaimOfAnother(claim, { namespace, source, uid })) return false;
    if (!isClaimOfAnother(claim, { namespace, source, uid: await uidNow() })) return false;
    const answer = await claims.delete(ref, claim, signal);
    return answer.is === "failed";
  }

  /** Where claims for a namespace are, or why that is not known. */
  #ownerOf(namespace: string): Omit<ClaimRef, "name"> | QuotaSeen {
    const { spec, namespaces, cluster } = this.#options;
    return payerOf(spec, namespace, namespaces?.get({ cluster, namespace: "", name: namespace }));
  }
}

function refOf(at: Omit<ClaimRef, "name">, { metadata }: Instance): ClaimRef {
  return { ...at, name: claimName(metadata?.name ?? "") };
}

/** Is the answer later than what the cache has now? @param then what the cache had when the answer came. */
function isLater(answer: QuotaSeen, then: string, cached: QuotaSeen): boolean {
  const now = versionIn(cached);
  // No failure takes back a grant that the watch has shown, and a change that it shows later is the answer.
  if (answer.is === "failed") return now === then && !isGranted(cached);
  return now === then || (compareResourceVersions(versionIn(answer), now) ?? -1) > 0;
}

/** `""`: there is no claim, or it is not known. */
function versionIn(seen: QuotaSeen): string {
  const claim = seen.is === "read" && seen.claim.is === "there" ? seen.claim.value : undefined;
  return claim?.metadata?.resourceVersion ?? "";
}

function isGranted(seen: QuotaSeen): boolean {
  const claim = seen.is === "read" && seen.claim.is === "there" ? seen.claim.value : undefined;
  return claim?.status?.conditions?.some((it) => it.type === "Granted" && it.status === "True") === true;
}
