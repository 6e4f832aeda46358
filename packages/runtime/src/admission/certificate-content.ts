/**
 * What a set of certificate files is worth, what to do about it, and the doing: the rules of `CertificateKeeper`, with
 * neither a cluster nor a clock.
 */
import type { X509Certificate } from "node:crypto";
import {
  BACKDATED_MS,
  belongsTogether,
  type CertificatePair,
  createAuthority,
  factsOf,
  isSignedBy,
  isSigningKey,
  issueServingCertificate,
  missingHosts,
  parseBundle,
  toBundle,
} from "./certificate-authority.ts";

/** The files, as cert-manager names them too; `""` for one that is not there. */
export interface CertificateContent {
  /** `tls.crt`: the serving certificate, then those that lead to the authority. */
  readonly certificate: string;
  /** `tls.key`. */
  readonly key: string;
  /** `ca.crt`: every authority that clients have to trust. */
  readonly authorities: string;
  /** `ca.key`: of one of the authorities, which signs the next serving certificate. */
  readonly authorityKey: string;
}

export const NO_CONTENT: CertificateContent = {
  certificate: "",
  key: "",
  authorities: "",
  authorityKey: "",
};

/** How long things last. All in milliseconds. */
export interface Lifetimes {
  readonly caValidMs: number;
  readonly validMs: number;
  /** A serving certificate is renewed this long before its end. */
  readonly renewBeforeMs: number;
  /** An authority is made known for this long before a serving certificate that it signed is shown. */
  readonly settleMs: number;
}

/** What to do next. */
export type CertificatePlan =
  /** In order; look again then (ms since the epoch). */
  | { readonly step: "wait"; readonly untilMs: number; readonly warning?: string }
  /** Of no use, and not ours to repair. */
  | { readonly step: "leave" }
  /** A new authority, and a serving certificate signed by it at once: there is nothing to show anyway. */
  | { readonly step: "makeAll"; readonly why: string }
  /** A new authority beside the present one, which clients are to know before it signs. */
  | { readonly step: "addAuthority"; readonly why: string }
  /** A new serving certificate, signed by the authority whose key is there. */
  | { readonly step: "issue"; readonly why: string; readonly hosts: readonly string[] };

/** Authorities kept in `ca.crt` beside a new one. Rotation needs one; more come from repairs. */
const MAX_OTHER_AUTHORITIES = 4;
/** Host names kept when the names wanted change; see `hostsToIssue`. */
const MAX_HOSTS = 50;

/**
 * Why a server could not be reached with this content, in a sentence; `undefined` when it can: key and certificate
 * belong together, it is valid now, for all `hosts`, and leads to one of the authorities, where any are given.
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

/** What clients have to trust, without anything else that the file may hold; `undefined` when it has no certificate. */
export function bundleOf(content: CertificateContent): string | undefined {
  return toBundle(parseBundle(content.authorities)) || undefined;
}

/** Content that was taken over, read once: what is asked of it over and over costs nothing. */
export interface StandingContent {
  readonly content: CertificateContent;
  /** The same object for as long as the pair is the same. */
  readonly pair: CertificatePair;
  /** `bundleOf` it. */
  readonly bundle: string | undefined;
  /** `faultOf` it at that time, whatever the hosts. Certificates are read again only when one has begun or ended since. */
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

/** Whose files these are, and what they are to be good for. */
export interface PlanInput {
  readonly content: CertificateContent;
  /** We made them. Others' are left alone while they are of use, and always without `ca.key`. */
  readonly ours: boolean;
  readonly hosts: readonly string[];
  readonly lifetimes: Lifetimes;
  readonly nowMs: number;
}

/** What to do about these files. Pure and total. */
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

/** Of files that are ours and in order. */
function planRenewal(
  { content, hosts, lifetimes, nowMs }: PlanInput,
  signer?: X509Certificate,
): CertificatePlan {
  if (signer === undefined) return { step: "addAuthority", why: "the key of the authority is of no use" };
  // So early that whatever it signs in its last round still lives its full time.
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

/** Somebody else renews it. In the last fifth of its life, or of what is left of an authority, he seems not to. */
function watchOver(content: CertificateContent, nowMs: number): CertificatePlan {
  const [leaf] = parseBundle(content.certificate);
  const { notBeforeMs, notAfterMs } = leaf ? factsOf(leaf) : { notBeforeMs: nowMs, notAfterMs: nowMs };
  const lateMs = notAfterMs - (notAfterMs - notBeforeMs) / 5;
  if (nowMs < lateMs) return { step: "wait", untilMs: lateMs };
  return { step: "wait", untilMs: notAfterMs, warning: `the certificate expires at ${toText(notAfterMs)}` };
}

/** What a plan needs beside the files. */
export interface MakeInput {
  readonly content: CertificateContent;
  readonly hosts: readonly string[];
  readonly lifetimes: Lifetimes;
  readonly nowMs: number;
  /** As `AuthorityOptions.name`. */
  readonly name?: string;
}

/** The files after a step that changes them. Authorities that have not expired stay trusted until they have. */
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
 * When nothing but the hosts is wrong, the old ones stay: during a rollout that changes them, replicas that want the
 * old ones and replicas that want the new ones would otherwise go on replacing each other's certificate. The next
 * renewal leaves them out.
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

/** Over any of the certificates that came with it, each used once at most. */
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
