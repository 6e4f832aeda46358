/**
 * The rules of `CertificateKeeper`: checks a set of certificate files, plans the next step, and makes the new content.
 * It uses neither a cluster nor a clock.
 */
import type { X509Certificate } from "node:crypto";
import {
  BACKDATED_MS,
  belongsTogether,
  type CertificatePair,
  createAuthority,
  DEFAULT_AUTHORITY_VALID_MS,
  DEFAULT_SERVING_VALID_MS,
  factsOf,
  isSignedBy,
  isSigningKey,
  issueServingCertificate,
  missingHosts,
  parseBundle,
  toBundle,
} from "./certificate-authority.ts";

/** The files, named as cert-manager does; `""` for a missing one. */
export interface CertificateContent {
  /** `tls.crt`: the serving certificate, then the chain to the authority. */
  readonly certificate: string;
  /** `tls.key`. */
  readonly key: string;
  /** `ca.crt`: every authority that clients have to trust. */
  readonly authorities: string;
  /** `ca.key`: the key of one of the authorities. It signs the next serving certificate. */
  readonly authorityKey: string;
}

export const NO_CONTENT: CertificateContent = {
  certificate: "",
  key: "",
  authorities: "",
  authorityKey: "",
};

/** Durations, all in milliseconds. */
export interface Lifetimes {
  readonly caValidMs: number;
  readonly validMs: number;
  /** A serving certificate is renewed this long before its end. */
  readonly renewBeforeMs: number;
  /** Clients learn of a new authority this long before the server shows a certificate that it signed. */
  readonly settleMs: number;
}

/** Long enough for the writer that copies the bundle to clients, with its restarts and retries. */
const SETTLE_MS = 60 * 60 * 1000;

/** Default: ten years, 90 days, and renewal a third before the end. @throws RangeError when the times contradict. */
export function lifetimesOf({
  caValidMs = DEFAULT_AUTHORITY_VALID_MS,
  validMs = DEFAULT_SERVING_VALID_MS,
  renewBeforeMs = validMs / 3,
}: Partial<Lifetimes> = {}): Lifetimes {
  if (!(renewBeforeMs > 0 && renewBeforeMs < validMs && caValidMs >= 3 * validMs)) {
    throw new RangeError(
      `certificates need 0 < renewBeforeMs < validMs and caValidMs of at least three times that, got ${renewBeforeMs}, ${validMs} and ${caValidMs}`,
    );
  }
  return { caValidMs, validMs, renewBeforeMs, settleMs: Math.min(SETTLE_MS, renewBeforeMs / 2) };
}

/** The next step. */
export type CertificatePlan =
  /** Valid; check again at that time (ms since the epoch). */
  | { readonly step: "wait"; readonly untilMs: number; readonly warning?: string }
  /** Invalid, and another owner must repair it. */
  | { readonly step: "leave" }
  /** A new authority, and at once a serving certificate signed by it, because no valid one exists. */
  | { readonly step: "makeAll"; readonly why: string }
  /** A new authority beside the present one. Clients learn of it before it signs. */
  | { readonly step: "addAuthority"; readonly why: string }
  /** A new serving certificate, signed by the authority whose key is present. */
  | { readonly step: "issue"; readonly why: string; readonly hosts: readonly string[] };

/** Authorities kept in `ca.crt` beside a new one. A rotation needs one; repairs add more. */
const MAX_OTHER_AUTHORITIES = 4;
/** Host names kept when the required names change; see `hostsToIssue`. */
const MAX_HOSTS = 50;

/**
 * Why clients would reject a server with this content, in a sentence; `undefined` when they accept it. Key and
 * certificate must match, and be valid now for all `hosts`. The chain must end at one of the authorities, if any.
 */
export function faultOf(
  content: CertificateContent,
  hosts: readonly string[],
  nowMs: number,
): string | undefined {
  const [leaf, ...rest] = parseBundle(content.certificate);
  if (leaf === undefined) {
    return content.certificate === "" ? "there is no certificate" : "the certificate cannot be read";
  }
  if (!belongsTogether(leaf, content.key)) return "the private key does not belong to the certificate";
  const { notBeforeMs, notAfterMs } = factsOf(leaf);
  if (nowMs < notBeforeMs) return `the certificate is not valid before ${toText(notBeforeMs)}`;
  if (nowMs >= notAfterMs) return `the certificate expired at ${toText(notAfterMs)}`;
  const missing = missingHosts(leaf, hosts);
  if (missing.length > 0) return `the certificate is not valid for ${missing.join(", ")}`;
  if (content.authorities.trim() === "") return undefined;
  const bundle = parseBundle(content.authorities);
  // A certificate that is trusted by itself needs no authority.
  if (bundle.some(({ fingerprint256 }) => fingerprint256 === leaf.fingerprint256)) return undefined;
  const authorities = bundle.filter((authority) => isValidAt(authority, nowMs));
  return leadsTo(leaf, rest, authorities)
    ? undefined
    : "no valid authority in the bundle signed the certificate";
}

/** The certificates that clients have to trust, without other text of the file; `undefined` when it has none. */
export function bundleOf(content: CertificateContent): string | undefined {
  return toBundle(parseBundle(content.authorities)) || undefined;
}

/** Accepted content, parsed once, so that repeated questions cost nothing. */
export interface StandingContent {
  readonly content: CertificateContent;
  /** The same object for as long as the pair is the same. */
  readonly pair: CertificatePair;
  /** The result of `bundleOf`. */
  readonly bundle: string | undefined;
  /** `faultOf` at that time, for any hosts. Parses again only after a certificate has begun or ended. */
  faultAt(nowMs: number): string | undefined;
}

/** @returns `before` itself when that is the same content. */
export function takeOver(content: CertificateContent, before: StandingContent | undefined): StandingContent {
  if (before !== undefined && isSame(before.content, content)) return before;
  const { certificate, key, authorities } = content;
  const isSamePair = before?.pair.certificate === certificate && before.pair.key === key;
  const turns = [...parseBundle(certificate), ...parseBundle(authorities)].flatMap((one) => {
    const { notBeforeMs, notAfterMs } = factsOf(one);
    return [notBeforeMs, notAfterMs];
  });
  let known:
    | { readonly fromMs: number; readonly untilMs: number; readonly fault: string | undefined }
    | undefined;
  return {
    content,
    pair: isSamePair ? before.pair : { certificate, key },
    bundle: bundleOf(content),
    faultAt(nowMs) {
      if (known === undefined || nowMs < known.fromMs || nowMs >= known.untilMs) {
        known = {
          fromMs: Math.max(...turns.filter((at) => at <= nowMs)),
          untilMs: Math.min(...turns.filter((at) => at > nowMs)),
          fault: faultOf(content, [], nowMs),
        };
      }
      return known.fault;
    },
  };
}

function isSame(a: CertificateContent, b: CertificateContent): boolean {
  return (
    a.certificate === b.certificate &&
    a.key === b.key &&
    a.authorities === b.authorities &&
    a.authorityKey === b.authorityKey
  );
}

/** The files, their owner, and the requirements. */
export interface PlanInput {
  readonly content: CertificateContent;
  /** We made them. Files of others are left alone while valid, and always if they lack `ca.key`. */
  readonly ours: boolean;
  readonly hosts: readonly string[];
  readonly lifetimes: Lifetimes;
  readonly nowMs: number;
}

/** Plans the next step for these files. Pure and total. */
export function planCertificates(input: PlanInput): CertificatePlan {
  const { content, ours, hosts, lifetimes, nowMs } = input;
  const unbound = ours && content.authorities.trim() === "" ? "there is no authority" : undefined;
  const fault = faultOf(content, hosts, nowMs) ?? unbound;
  if (!ours && fault === undefined) return watchOver(content, nowMs);
  if (!ours && content.authorityKey === "") return { step: "leave" };
  const signer = signerOf(content, nowMs);
  if (fault !== undefined) {
    const lasts = signer !== undefined && factsOf(signer).notAfterMs - nowMs >= lifetimes.validMs;
    if (!lasts) return { step: "makeAll", why: fault };
    return { step: "issue", why: fault, hosts: hostsToIssue(input) };
  }
  return planRenewal(input, signer);
}

/** For our own valid files. */
function planRenewal(
  { content, hosts, lifetimes, nowMs }: PlanInput,
  signer?: X509Certificate,
): CertificatePlan {
  if (signer === undefined) return { step: "addAuthority", why: "the key of the authority is not usable" };
  // So early that even the last certificate it signs can live its full time.
  const authorityDueMs = factsOf(signer).notAfterMs - 2 * lifetimes.validMs;
  if (nowMs >= authorityDueMs) return { step: "addAuthority", why: "the authority is about to expire" };
  const [leaf] = parseBundle(content.certificate);
  const issuer = parseBundle(content.authorities).find((authority) => leaf && isSignedBy(leaf, authority));
  const ends = [leaf, issuer].map((one) => (one ? factsOf(one).notAfterMs : nowMs));
  const endMs = Math.min(...ends);
  const dueMs = endMs - lifetimes.renewBeforeMs;
  const knownFromMs = factsOf(signer).notBeforeMs + BACKDATED_MS + lifetimes.settleMs;
  const sameSigner = issuer !== undefined && issuer.fingerprint256 === signer.fingerprint256;
  const issueAtMs = sameSigner ? dueMs : Math.min(Math.max(dueMs, knownFromMs), endMs);
  if (nowMs >= issueAtMs) return { step: "issue", why: "the certificate is about to expire", hosts };
  return { step: "wait", untilMs: Math.min(issueAtMs, authorityDueMs) };
}

/** Another owner renews it. The plan warns once the last fifth of its life has begun. */
function watchOver(content: CertificateContent, nowMs: number): CertificatePlan {
  const [leaf] = parseBundle(content.certificate);
  const { notBeforeMs, notAfterMs } = leaf ? factsOf(leaf) : { notBeforeMs: nowMs, notAfterMs: nowMs };
  const lateMs = notAfterMs - (notAfterMs - notBeforeMs) / 5;
  if (nowMs < lateMs) return { step: "wait", untilMs: lateMs };
  return { step: "wait", untilMs: notAfterMs, warning: `the certificate expires at ${toText(notAfterMs)}` };
}

/** The further input of a plan. */
export interface MakeInput {
  readonly content: CertificateContent;
  readonly hosts: readonly string[];
  readonly lifetimes: Lifetimes;
  readonly nowMs: number;
  /** As `AuthorityOptions.name`. */
  readonly name?: string;
}

/** The files after a step that changes them. Authorities stay trusted until they expire. */
export async function makeContent(
  plan: Extract<CertificatePlan, { step: "makeAll" | "addAuthority" | "issue" }>,
  { content, hosts, lifetimes, nowMs, name }: MakeInput,
): Promise<CertificateContent> {
  const { caValidMs, validMs } = lifetimes;
  const present = parseBundle(content.authorities).filter((authority) => isValidAt(authority, nowMs));
  const signer = signerOf(content, nowMs);
  if (plan.step === "issue" && signer !== undefined) {
    const authority = { certificate: signer.toString(), key: content.authorityKey };
    const leaf = await issueServingCertificate({ authority, hosts: plan.hosts, nowMs, validMs });
    return { ...content, ...leaf, authorities: toBundle(present) };
  }
  const authority = await createAuthority({ nowMs, validMs: caValidMs, ...(name !== undefined && { name }) });
  const known = [...parseBundle(authority.certificate), ...present.slice(0, MAX_OTHER_AUTHORITIES)];
  const bundle = { authorities: toBundle(known), authorityKey: authority.key };
  if (plan.step === "addAuthority") return { ...content, ...bundle };
  return { ...bundle, ...(await issueServingCertificate({ authority, hosts, nowMs, validMs })) };
}

/** The valid authority that `ca.key` belongs to. */
function signerOf(
  { authorities, authorityKey }: CertificateContent,
  nowMs: number,
): X509Certificate | undefined {
  if (!isSigningKey(authorityKey)) return undefined;
  return parseBundle(authorities).find(
    (authority) => isValidAt(authority, nowMs) && belongsTogether(authority, authorityKey),
  );
}

/**
 * If only the hosts are wrong, the old ones stay too. During a rollout that changes them, old and new replicas want
 * different hosts. They would otherwise replace each other's certificate again and again. The next renewal drops the
 * old ones.
 */
function hostsToIssue({ content, hosts, nowMs }: PlanInput): readonly string[] {
  const [leaf] = parseBundle(content.certificate);
  if (leaf === undefined || faultOf(content, [], nowMs) !== undefined) return hosts;
  const all = [...new Set([...hosts, ...factsOf(leaf).hosts])];
  return all.length <= MAX_HOSTS ? all : hosts;
}

function isValidAt(authority: X509Certificate, nowMs: number): boolean {
  const { notBeforeMs, notAfterMs, isAuthority } = factsOf(authority);
  return isAuthority && notBeforeMs <= nowMs && nowMs < notAfterMs;
}

/** Follows the certificates that came with it, each at most once. */
function leadsTo(
  leaf: X509Certificate,
  between: readonly X509Certificate[],
  authorities: readonly X509Certificate[],
): boolean {
  if (authorities.some((authority) => isSignedBy(leaf, authority))) return true;
  const next = between.find((one) => isSignedBy(leaf, one));
  if (next === undefined) return false;
  return leadsTo(
    next,
    between.filter((one) => one !== next),
    authorities,
  );
}

function toText(atMs: number): string {
  return new Date(atMs).toISOString().replace(".000Z", "Z");
}
