/** Translates the answer or failure of a registry into `ImageKnowledge` for the placement rules. Pure. */

import type { FactAnswer, RegistryError, RegistryFailureKind } from "@berth/registry";
import { type Reason, reasons } from "../../api/reasons.ts";
import type { ImageAccess, ImageKnowledge } from "../image-observations.ts";

const REASONS: Readonly<Record<Exclude<RegistryFailureKind, "noPlatform" | "aborted">, Reason>> = {
  invalidName: reasons.ImageNameInvalid,
  notAllowed: reasons.RegistryNotAllowed,
  notFound: reasons.ImageNotFound,
  unauthorized: reasons.RegistryUnauthorized,
  forbidden: reasons.RegistryForbidden,
  rateLimited: reasons.RegistryRateLimited,
  unreachable: reasons.RegistryUnreachable,
  serverError: reasons.RegistryFailed,
  malformed: reasons.ImageMalformed,
  suspended: reasons.RegistrySuspended,
};

/** Failures that other credentials could fix. */
const ABOUT_CREDENTIALS = new Set<RegistryFailureKind>(["unauthorized", "forbidden", "notFound"]);
/** Problems in one message. A pod may name a great many Secrets that do not exist. */
const MAX_PROBLEMS = 3;

/** What may be why the registry was asked without the right credentials. */
export interface CredentialProblems {
  /** Those with the pod's pull secrets. */
  readonly secrets?: readonly string[] | undefined;
  /** Those with the programs that give credentials for all pods. */
  readonly programs?: readonly string[] | undefined;
}

export function toKnowledge(
  name: string,
  answer: FactAnswer,
  { secrets = [], programs = [] }: CredentialProblems = {},
): ImageKnowledge {
  if (answer.state === "unknown") return { state: "unknown", name };
  if (answer.state === "known") {
    const { platforms, digest, isBundle } = answer.facts;
    return { state: "known", name, platforms, digest, ...(isBundle && { isBundle }) };
  }
  const { kind, message } = answer.error;
  // A pod can mount an artifact as a volume. The rules report a container that tries to run it.
  if (kind === "noPlatform") return { state: "known", name, platforms: [] };
  if (kind === "aborted") return { state: "unknown", name };
  const later = answer.retryAt !== undefined && { retryAt: answer.retryAt };
  const problems = [...programs, ...secrets];
  if (problems.length === 0 || !ABOUT_CREDENTIALS.has(kind))
    return { state: "failed", name, reason: REASONS[kind], message, ...later };
  const more = problems.length - MAX_PROBLEMS;
  const told = [...problems.slice(0, MAX_PROBLEMS), ...(more > 0 ? [`and ${more} more`] : [])].join("; ");
  const reason = programs.length > 0 ? reasons.CredentialProviderFailed : reasons.PullSecretUnreadable;
  return { state: "failed", name, reason, message: `${message}; ${told}`, ...later };
}

/** The name is invalid, or Berth must not ask its registry, so it never gets facts. */
export function ofRefusedName(image: string, { kind, message }: RegistryError): ImageKnowledge {
  const reason = kind === "notAllowed" ? reasons.RegistryNotAllowed : reasons.ImageNameInvalid;
  return { state: "failed", name: image, reason, message };
}

/** Equal for pods with the same credentials: only these pods share a refusal by the registry. */
export function scopeOf({ namespace, serviceAccount, secrets }: ImageAccess): string {
  const named = [...new Set(secrets)].sort();
  return JSON.stringify(named.length > 0 ? [namespace, named] : [namespace, serviceAccount]);
}
