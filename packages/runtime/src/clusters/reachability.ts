/** Whether a cluster can be worked with, decided from the answers to its probes. */
import type { ApiError, ApiFailure } from "@berth/kube";

/** The uid of an object. */
export type Uid = string;

/** Why a cluster cannot be worked with. */
export type ReachCause =
  /** It answers nothing useful: no connection is accepted, or the API server fails. */
  | "Refused"
  /** It takes requests and does not answer. */
  | "Silent"
  /** It does not accept the credential, or does not permit the probe. */
  | "Unauthorized"
  /** Another cluster answers, or it has no identity. */
  | "WrongIdentity"
  /** One side does not trust the certificate of the other. */
  | "Tls";

/** Whether a cluster can be worked with. Times are milliseconds since the epoch, by the clock of this process. */
export type Reach =
  | { readonly is: "yes"; readonly heardMs: number }
  /** `since`: when it last answered, or when it joined. `message`: the last failure, without secrets. */
  | { readonly is: "no"; readonly since: number; readonly cause: ReachCause; readonly message: string };

/** The result of one probe. */
export type Observation =
  /** @see Reachability.version */
  | { readonly is: "answered"; readonly uid: Uid; readonly version: string }
  /** The store has this version, and a watch has seen a later one. */
  | { readonly is: "behind"; readonly version: string }
  /** It lives, and had no time for the probe. */
  | { readonly is: "busy" }
  | { readonly is: "failed"; readonly cause: ReachCause; readonly message: string };

/** All that is remembered of a cluster's probes. */
export interface Reachability {
  /** `undefined` before the first result. */
  readonly reach: Reach | undefined;
  /** The identity that it must have. Unless it was given, the first one seen. */
  readonly identity: Uid | undefined;
  /** The version of the last list of a probe. A lower one shows a restore from a backup, as a version behind a watch does. */
  readonly version: string | undefined;
  /** When the last answer came: monotonic milliseconds in which this process did not stand still. */
  readonly heardAt: number | undefined;
  /** What was read in an earlier epoch does not count. One begins with a restore, and when another cluster answers. */
  readonly epoch: number;
  /** Restores seen. */
  readonly restores: number;
}

/** Without an answer for this long a cluster is not reached. Milliseconds. A refusal of the credential counts at once. */
export const UNHEARD_MS = 8_000;

/** Nothing is known yet but what an earlier process may have seen. */
export function notProbed(known: Pick<Reachability, "identity" | "version">): Reachability {
  return { ...known, reach: undefined, heardAt: undefined, epoch: 0, restores: 0 };
}

/** When a probe has ended. Milliseconds. */
export interface ProbeEnd {
  readonly wallMs: number;
  /** Without the time for which this process stood still. */
  readonly monotonicMs: number;
  /** For how long it stood still since the probe began. */
  readonly lostMs: number;
}

/** A probe has four times as long for each of its requests. Milliseconds. */
const LOST_MS = 1_000;

export function observe(before: Reachability, seen: Observation, now: ProbeEnd): Reachability {
  // The answer may have come meanwhile, and was not read.
  if (seen.is === "failed" && seen.cause === "Silent" && now.lostMs >= LOST_MS) return before;
  const heard = { reach: { is: "yes", heardMs: now.wallMs }, heardAt: now.monotonicMs } as const;
  if (seen.is === "answered") {
    return isOther(before, seen.uid)
      ? lose(before, "WrongIdentity", `the identity is ${seen.uid}, and not ${before.identity}`, now.wallMs)
      : { ...before, ...heard, identity: seen.uid, ...versionAfter(before, seen.version) };
  }
  if (seen.is === "behind") {
    const { version = seen.version, epoch, restores } = before;
    // The next probe must not find the same restore again.
    const lower = isLower(seen.version, version) ? seen.version : version;
    return { ...before, version: lower, epoch: epoch + 1, restores: restores + 1 };
  }
  if (seen.is === "busy") {
    return before.reach?.is === "yes"
      ? { ...before, ...heard }
      : lose(before, before.reach?.cause ?? "Refused", "it asks to slow down", now.wallMs);
  }
  const isDefinite = seen.cause !== "Refused" && seen.cause !== "Silent";
  const isRecent = before.heardAt !== undefined && now.monotonicMs - before.heardAt < UNHEARD_MS;
  if (before.reach?.is === "yes" && isRecent && !isDefinite) return before;
  return lose(before, seen.cause, seen.message, now.wallMs);
}

/** Is this another cluster than the one that joined? */
export function isOther({ identity }: Pick<Reachability, "identity">, uid: Uid | undefined): boolean {
  return identity !== undefined && uid !== identity;
}

/** Did a change happen that others wait for? Each answer alone is none. */
export function isEdge(before: Reachability, after: Reachability): boolean {
  return (
    before.epoch !== after.epoch ||
    before.reach?.is !== after.reach?.is ||
    (before.reach?.is === "no" && after.reach?.is === "no" && before.reach.cause !== after.reach.cause)
  );
}

function lose(before: Reachability, cause: ReachCause, message: string, wallMs: number): Reachability {
  const { reach, epoch } = before;
  const since = reach?.is === "no" ? reach.since : (reach?.heardMs ?? wallMs);
  const isSame = reach?.is === "no" && reach.cause === cause;
  const isNew = cause === "WrongIdentity" && !isSame;
  // Whether a connection or an answer is waited for is no news, and would be written to all that is in the cluster.
  const told = isSame && cause === "Silent" ? reach.message : message;
  return { ...before, reach: { is: "no", since, cause, message: told }, epoch: isNew ? epoch + 1 : epoch };
}

function versionAfter(
  { version, epoch, restores }: Reachability,
  seen: string,
): Pick<Reachability, "version" | "epoch" | "restores"> {
  const isRestored = version !== undefined && isLower(seen, version);
  return isRestored
    ? { version: seen, epoch: epoch + 1, restores: restores + 1 }
    : { version: seen, epoch, restores };
}

/** Versions are decimal numbers without leading zeros (KEP-5504), longer than a number of JavaScript is exact. */
export function isLower(one: string, other: string): boolean {
  return one.length === other.length ? one < other : one.length < other.length;
}

/** What a failed request says about its cluster. */
export function observationOf(error: ApiError): Exclude<Observation, { is: "answered" }> {
  const { failure, message } = error;
  if (failure.kind === "tooManyRequests") return { is: "busy" };
  return { is: "failed", cause: causeOf(failure), message };
}

function causeOf(failure: ApiFailure): ReachCause {
  if (failure.kind !== "unreachable") return CAUSES[failure.kind] ?? "Refused";
  return failure.tls ? "Tls" : failure.silent ? "Silent" : "Refused";
}

/** The identity is read by name, so a `notFound` is about it. All others: `Refused`. */
const CAUSES: Readonly<Partial<Record<ApiFailure["kind"], ReachCause>>> = {
  unauthorized: "Unauthorized",
  forbidden: "Unauthorized",
  credential: "Unauthorized",
  timeout: "Silent",
  notFound: "WrongIdentity",
};
