/**
 * What is known of the quota of Instances: from the watch of claims, and from questions at growing intervals. Nothing
 * here waits for the quota service: an answer brings the next look at its Instance.
 */
import type { View } from "@berth/host";
import { compareResourceVersions, isApiError, type Namespace } from "@berth/kube";
import { type Clock, type ClusterName, isConditionTrue, keyOf, type ObjectKey } from "@berth/runtime";
import { claimName, DEFAULT_CELL } from "../api/keys.ts";
import type { ResourceClaim } from "../api/quota.ts";
import type { Instance } from "../api/workload.ts";
import type { CurrentFleet } from "../fleet/follow.ts";
import { claimFor, isClaimOfAnother } from "../instance/claim.ts";
import { awaitsClaim, lookEveryMs } from "../instance/tiers.ts";
import type { InstanceDecision, QuotaFailure, QuotaSeen } from "../instance/view.ts";
import type { Claims } from "./claims.ts";
import { payerOf } from "./payer.ts";
import type { ClaimPlane, ClaimRef } from "./plane.ts";

export interface QuotaOptions {
  readonly fleet: CurrentFleet;
  readonly claims: Claims;
  readonly cluster: ClusterName;
  /** In mode `single` the Fleet names the project. */
  readonly namespaces: Pick<View<Namespace>, "find">;
  readonly clock: Clock;
  /** A question about this Instance was answered. Must not throw. */
  readonly onAnswer: (instance: ObjectKey) => void;
  /** Whether rolls in this namespace are held is known anew. Must not throw. */
  readonly onHold: (namespace: string) => void;
  /** Called for each question that failed. */
  readonly onFailure: (reason: QuotaFailure) => void;
}

/** What this process remembers of the claim of one Instance. */
interface Look {
  readonly key: ObjectKey;
  readonly project: string;
  /** The last question, monotonic ms. `-Infinity`: a look is due. */
  readonly atMs: number;
  readonly answer?: Answer;
  /** Something waited for the claim then. */
  readonly isWaiting: boolean;
  /** What is asked, until it is answered. */
  readonly asked?: Verb | undefined;
  /** The claim that was seen last, and since when, monotonic ms. */
  readonly claim?: { readonly uid: string | undefined; readonly sinceMs: number };
}

/** To the last question. */
interface Answer {
  readonly seen: QuotaSeen;
  /** The version of the claim that the cache had when it was asked. */
  readonly before: string;
}

type Verb = "read" | "create" | "delete";

/** How long the answer whether a claim could be created in a namespace counts, ms. */
const TRIAL_MS = 60_000;
/** The name of a claim that the service is asked about and does not store. */
const TRIAL = "instance-trial-of-berth";

export class Quota {
  readonly #options: QuotaOptions;
  /** By uid of the Instance. */
  readonly #looks = new Map<string, Look>();
  /** By project and namespace. */
  readonly #trials = new Map<string, { readonly atMs: number; readonly refusal?: string | undefined }>();

  constructor(options: QuotaOptions) {
    this.#options = options;
  }

  forget(uid: string): void {
    const { project } = this.#looks.get(uid) ?? {};
    this.#looks.delete(uid);
    if (project !== undefined) this.#options.claims.forget(project, uid);
  }

  /** Another service has the claims now: what the one before has said counts no more. */
  reset(): void {
    this.#looks.clear();
    this.#trials.clear();
  }

  /**
   * Why no new claim of this namespace could be granted now, as a sentence. `""`: that is not known yet. `undefined`: it
   * could. Asks the service whether it would take a claim, at most once in `TRIAL_MS`.
   */
  hold(namespace: string): string | undefined {
    const { claims, clock, onHold, fleet } = this.#options;
    if (fleet.spec.quota === undefined) return undefined;
    const owner = this.#ownerOf(namespace);
    if ("is" in owner) return owner.is === "unresolvable" ? owner.message : "";
    const { project } = owner;
    const outage = claims.outage(project)?.message;
    if (outage !== undefined) return `the quota service does not answer: ${outage}`;
    const problem = claims.watchProblem(project);
    if (problem !== undefined) return problem;
    const id = `${project}/${owner.namespace}`;
    const trial = this.#trials.get(id);
    const nowMs = clock.monotonic();
    const isFresh = trial !== undefined && nowMs - trial.atMs < TRIAL_MS;
    if (!isFresh && !claims.isAsked(project, id))
      claims.ask(project, id, async (plane, signal) => {
        const { spec } = fleet;
        const claim = {
          ...claimFor({ instance: { metadata: { namespace } }, source: spec.cell, rules: spec }, project),
          metadata: { name: TRIAL },
        };
        const refusal = await plane.tryCreate({ ...owner, name: TRIAL }, claim, signal);
        this.#trials.set(id, { atMs: clock.monotonic(), refusal });
        onHold(namespace);
      });
    // The next answer replaces an old one.
    return trial === undefined ? "" : trial.refusal;
  }

  /** What is known now. Asks the service when a look is due: see `lookEveryMs`. */
  see(instance: Instance): QuotaSeen {
    const { claims, clock, cluster, fleet } = this.#options;
    if (fleet.spec.quota === undefined) return { is: "off" };
    const { uid = "", namespace = "" } = instance.metadata ?? {};
    const owner = this.#ownerOf(namespace);
    if ("is" in owner) return owner;
    const { project } = owner;
    const cached = claims.seen(refOf(owner, instance));
    // What another project has said is no answer.
    if (this.#looks.get(uid)?.project !== project) this.forget(uid);
    const known = this.#looks.get(uid);
    const nowMs = clock.monotonic();
    const isWatched = claims.watches(project);
    const waits = awaitsClaim(instance);
    // The time to the first look past a watch counts from the start of the wait.
    const begins = isWatched && known?.isWaiting !== waits;
    const atMs = begins ? nowMs : (known?.atMs ?? -Infinity);
    const { answer } = known ?? {};
    const isDue = nowMs - atMs >= lookEveryMs(instance, clock.now());
    // After its time a failure says nothing, and what the watch shows counts again.
    const isOld = isDue && answer?.seen.is === "failed" && isWatched && !waits;
    const isNewest = answer !== undefined && !isOld && isLater(answer, cached);
    const latest = isNewest ? answer.seen : cached;
    const claim = claimIn(latest)?.metadata;
    const isSame = claim?.uid === known?.claim?.uid;
    const sinceMs = isSame ? (known?.claim?.sinceMs ?? nowMs) : nowMs;
    this.#looks.set(uid, {
      key: keyOf(cluster, instance),
      project,
      atMs,
      isWaiting: waits,
      asked: known?.asked,
      ...(isNewest && { answer }),
      ...(claim && { claim: { uid: claim.uid, sinceMs } }),
    });
    if (isDue && (waits || !isWatched))
      this.#send(instance, "read", (plane, ref, signal) => plane.read(ref, signal));
    const outage = claims.outage(project);
    // A question that waits for its turn has this answer meanwhile.
    if (outage?.isConfirmed && claims.isAsked(project, uid) && !isGranted(latest))
      return { is: "failed", reason: "QuotaBackendUnavailable", message: outage.message };
    return latest.is === "read" ? { ...latest, knownMs: nowMs - sinceMs } : latest;
  }

  /** Creates or deletes the claim of the Instance when it is its turn. A question that waits is not asked twice. */
  change(instance: Instance, { do: verb, claim }: NonNullable<InstanceDecision["claim"]>): void {
    this.#send(instance, verb, async (plane, ref, signal) => {
      if (verb === "create") return plane.create(ref, claim, signal);
      const answer = await plane.delete(ref, claim, signal);
      return this.#options.claims.watches(ref.project) ? answer : plane.read(ref, signal);
    });
  }

  #send(
    instance: Instance,
    verb: Verb,
    request: (plane: ClaimPlane, ref: ClaimRef, signal: AbortSignal) => Promise<QuotaSeen>,
  ): void {
    const { claims, clock, onAnswer, onFailure } = this.#options;
    const { uid = "", namespace = "" } = instance.metadata ?? {};
    const owner = this.#ownerOf(namespace);
    const look = this.#looks.get(uid);
    if ("is" in owner || look === undefined) return;
    // The questions of a project that was dropped are gone.
    const asked = claims.isAsked(owner.project, uid) ? look.asked : undefined;
    // Only a look waits for a change, and not the other way round.
    if (asked === verb || (asked !== undefined && verb === "read")) return;
    const ref = refOf(owner, instance);
    this.#looks.set(uid, { ...look, atMs: clock.monotonic(), asked: verb });
    claims.ask(ref.project, uid, async (plane, signal) => {
      const before = versionIn(claims.seen(ref));
      const seen = await request(plane, ref, signal);
      if (seen.is === "failed") onFailure(seen.reason);
      const present = this.#looks.get(uid);
      if (present?.project !== ref.project) return;
      const asked = present.asked === verb ? undefined : present.asked;
      this.#looks.set(uid, { ...present, answer: { seen, before }, atMs: clock.monotonic(), asked });
      onAnswer(look.key);
    });
  }

  /** The service of these projects does not work since now, or works again: all that waits for it is due. */
  serviceChanged(isOf: (project: string) => boolean): void {
    const { onAnswer, claims } = this.#options;
    for (const [uid, look] of this.#looks) {
      const { seen } = look.answer ?? {};
      const isFailed = seen?.is === "failed" && seen.reason === "QuotaBackendUnavailable";
      if (!isOf(look.project) || (!isFailed && look.asked === undefined)) continue;
      const isWorking = claims.outage(look.project) === undefined;
      if (isWorking) this.#looks.set(uid, { ...look, atMs: -Infinity });
      onAnswer(look.key);
    }
  }

  /**
   * Deletes the claim of an Instance that is gone. A process that was behind may have made it after that, and then it
   * would take quota, and the name, for ever. A cache is no proof that an Instance is gone. Clusters that share a
   * service under the default name cannot tell their claims apart, so there Berth deletes none.
   *
   * @param uid of the Instance that now has this name, as cached.
   * @param uidNow the same, from the API server.
   * @returns whether there is such a claim.
   */
  sweep(
    { namespace, name }: Pick<ObjectKey, "namespace" | "name">,
    uid: string | undefined,
    uidNow: (signal: AbortSignal) => Promise<string | undefined>,
  ): boolean {
    const { claims, fleet } = this.#options;
    const { quota, cell: source } = fleet.spec;
    const owner = this.#ownerOf(namespace);
    const isAlone = quota?.from === "Cluster" || source !== DEFAULT_CELL;
    if (quota === undefined || "is" in owner || !isAlone) return false;
    const { project } = owner;
    const ref = { ...owner, name: claimName(name) };
    const claim = claimIn(claims.seen(ref));
    if (claim === undefined || claim.metadata?.deletionTimestamp !== undefined) return false;
    if (!isClaimOfAnother(claim, { namespace, source, uid })) return false;
    const id = claim.metadata?.uid ?? "";
    if (!claims.isAsked(project, id))
      claims.ask(project, id, async (plane, signal) => {
        try {
          const present = await uidNow(signal);
          if (isClaimOfAnother(claim, { namespace, source, uid: present }))
            await plane.delete(ref, claim, signal);
        } catch (error) {
          // The next look at the Instance tries it again.
          if (!isApiError(error)) throw error;
        }
      });
    return true;
  }

  /** Where claims for a namespace are, or why that is not known. */
  #ownerOf(namespace: string): Omit<ClaimRef, "name"> | QuotaSeen {
    const { fleet, namespaces } = this.#options;
    return payerOf(fleet.spec, namespace, namespaces.find(namespace) ?? undefined);
  }
}

function refOf(at: Omit<ClaimRef, "name">, { metadata }: Instance): ClaimRef {
  return { ...at, name: claimName(metadata?.name ?? "") };
}

/** Is the answer later than what the cache has now? */
function isLater({ seen, before }: Answer, cached: QuotaSeen): boolean {
  const now = versionIn(cached);
  // No failure takes back a grant that the watch has shown, and a change that it shows later is the answer.
  if (seen.is === "failed") return now === before && !isGranted(cached);
  return now === before || (compareResourceVersions(versionIn(seen), now) ?? -1) > 0;
}

function claimIn(seen: QuotaSeen): ResourceClaim | undefined {
  return seen.is === "read" && seen.claim.is === "there" ? seen.claim.value : undefined;
}

/** `""`: there is no claim, or it is not known. */
function versionIn(seen: QuotaSeen): string {
  return claimIn(seen)?.metadata?.resourceVersion ?? "";
}

function isGranted(seen: QuotaSeen): boolean {
  return isConditionTrue(claimIn(seen)?.status?.conditions, "Granted");
}
