/** What is done with certificates over the years, and what may never be wrong with them. */
import type { X509Certificate } from "node:crypto";
import { isSignedBy, parseBundle, parseCertificate } from "../admission/certificate-authority.ts";
import {
  type CertificateContent,
  type CertificatePlan,
  faultOf,
  type Lifetimes,
  makeContent,
  NO_CONTENT,
  planCertificates,
} from "../admission/certificate-content.ts";

export const HOUR_MS: number = 60 * 60 * 1000;
export const DAY_MS: number = 24 * HOUR_MS;
export const HOSTS: string[] = ["webhook.svc", "127.0.0.1"];
export const startMs: number = Date.parse("2026-11-21T08:00:00Z");
export const lifetimes: Lifetimes = {
  caValidMs: 1000 * DAY_MS,
  validMs: 90 * DAY_MS,
  renewBeforeMs: 30 * DAY_MS,
  settleMs: HOUR_MS,
};

/** What went wrong in ten years, which is several authorities. */
export async function violationsOver(
  lifetimes: Lifetimes,
  lateMs: (look: number) => number,
): Promise<readonly string[]> {
  const violations: string[] = [];
  const expectAt = (nowMs: number, truth: boolean, violation: string): void => {
    if (!truth) violations.push(`${new Date(nowMs).toISOString()}: ${violation}`);
  };
  const change = (next: CertificatePlan, from: CertificateContent, nowMs: number) =>
    carryOut(next, from, nowMs, HOSTS, lifetimes);
  const planAt = (content: CertificateContent, nowMs: number): CertificatePlan =>
    planCertificates({ content, ours: true, hosts: HOSTS, lifetimes, nowMs });
  let content = await change(planAt(NO_CONTENT, startMs), NO_CONTENT, startMs);
  let nowMs = startMs;
  const knownSinceMs = new Map(fingerprints(content).map((one) => [one, startMs - HOUR_MS]));
  for (let look = 0; nowMs < startMs + 3650 * DAY_MS; look++) {
    const next = planAt(content, nowMs);
    if (next.step === "wait") {
      expectAt(nowMs, next.untilMs > nowMs, "waits for what has been");
      nowMs = Math.max(next.untilMs, nowMs) + lateMs(look);
      const fault = faultOf(content, HOSTS, nowMs);
      expectAt(nowMs, fault === undefined, `${fault}`);
      continue;
    }
    expectAt(nowMs, next.step !== "makeAll", "begins anew");
    content = await change(next, content, nowMs);
    for (const one of fingerprints(content)) if (!knownSinceMs.has(one)) knownSinceMs.set(one, nowMs);
    const knownMs = nowMs - (knownSinceMs.get(signerOf(content)?.fingerprint256 ?? "") ?? nowMs);
    expectAt(nowMs, knownMs >= HOUR_MS, `shows what was signed by an authority known for ${knownMs} ms`);
    const leftMs = Math.min(...endsOf(content)) - nowMs;
    expectAt(nowMs, next.step !== "issue" || leftMs >= 89 * DAY_MS, `issues for ${leftMs} ms`);
    // 270 days of life, and the next one after 90.
    expectAt(nowMs, parseBundle(content.authorities).length <= 3, "keeps old authorities");
  }
  expectAt(nowMs, knownSinceMs.size > 3, `has seen ${knownSinceMs.size} authorities`);
  return violations;
}

const fingerprints = ({ authorities }: CertificateContent): readonly string[] =>
  parseBundle(authorities).map(({ fingerprint256 }) => fingerprint256);

/** Of the certificate, and of the authority that signed it. */
const endsOf = (content: CertificateContent): readonly number[] =>
  [parseCertificate(content.certificate), signerOf(content)].map((one) => one?.validToDate.getTime() ?? 0);

function signerOf({ certificate, authorities }: CertificateContent): X509Certificate | undefined {
  const leaf = parseCertificate(certificate);
  return parseBundle(authorities).find((one) => leaf !== undefined && isSignedBy(leaf, one));
}

export function carryOut(
  next: CertificatePlan,
  content: CertificateContent,
  nowMs: number,
  hosts: readonly string[] = HOSTS,
  of: Lifetimes = lifetimes,
): Promise<CertificateContent> {
  if (next.step === "wait" || next.step === "leave") throw new Error(`nothing to do: ${next.step}`);
  return makeContent(next, { content, hosts, lifetimes: of, nowMs });
}
