/** From what a registry said, or did not say, to what the rules of architecture placement are told. Pure. */

import type { FactAnswer, RegistryError, RegistryFailureKind } from "@berth/registry";
import { type Reason, reasons } from "../../api/reasons.ts";
import type { ImageAccess, ImageKnowledge } from "../image-sight.ts";

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

/** What another credential could change. */
const ABOUT_CREDENTIALS = new Set<RegistryFailureKind>(["unauthorized", "forbidden", "notFound"]);
/** In one message; a pod may name more Secrets that do not exist than anybody wants to read. */
const MAX_PROBLEMS = 3;

/** @param problems what could not be read of the pod's pull secrets. */
export function toKnowledge(
  name: string,
  answer: FactAnswer,
  problems: readonly string[] = [],
): ImageKnowledge {
  if (answer.state === "unknown") return { state: "unknown", name };
  if (answer.state === "known") {
    const { platforms, digest, isBundle } = answer.facts;
    return { state: "known", name, platforms, digest, ...(isBundle && { isBundle }) };
  }
  const { kind, message } = answer.error;
  // An artifact can be mounted as a volume; what runs it as a container is told so by the rules.
  if (kind === "noPlatform") return { state: "known", name, platforms: [] };
  if (kind === "aborted") return { state: "unknown", name };
  const later = answer.retryAt !== undefined && { retryAt: answer.retryAt };
  if (problems.length === 0 || !ABOUT_CREDENTIALS.has(kind))
    return { state: "failed", name, reason: REASONS[kind], message, ...later };
  const more = problems.length - MAX_PROBLEMS;
  const told = [...problems.slice(0, MAX_PROBLEMS), ...(more > 0 ? [`and ${more} more`] : [])].join("; ");
  const reason = reasons.PullSecretUnreadable;
  return { state: "failed", name, reason, message: `${message}; ${told}`, ...later };
}

/** The name cannot be read, or its registry must not be asked: nothing will ever be known. */
export function ofRefusedName(image: string, { kind, message }: RegistryError): ImageKnowledge {
  const reason = kind === "notAllowed" ? reasons.RegistryNotAllowed : reasons.ImageNameInvalid;
  return { state: "failed", name: image, reason, message };
}

/** Equal for pods that have the same credentials: a refusal is shared by those and by nobody else. */
export function scopeOf({ namespace, serviceAccount, secrets }: ImageAccess): string {
  const named = [...new Set(secrets)].sort();
  return JSON.stringify(named.length > 0 ? [namespace, named] : [namespace, serviceAccount]);
}
