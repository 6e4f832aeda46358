import * as fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import {
  carryOut,
  DAY_MS,
  HOSTS,
  HOUR_MS,
  lifetimes,
  startMs,
  violationsOver,
} from "../testing/certificate-years.ts";
import { seededRun } from "../testing/property.ts";
import {
  type CertificatePair,
  createAuthority,
  issueServingCertificate,
  parseBundle,
} from "./certificate-authority.ts";
import {
  bundleOf,
  type CertificateContent,
  type CertificatePlan,
  faultOf,
  NO_CONTENT,
  planCertificates,
  takeOver,
} from "./certificate-content.ts";

let authority: CertificatePair;
let otherKey: string;
/** In order, made at `startMs`. */
let good: CertificateContent;
let noSigner: CertificateContent;

beforeAll(async () => {
  authority = await createAuthority({ nowMs: startMs, validMs: lifetimes.caValidMs });
  otherKey = (await createAuthority({ nowMs: startMs })).key;
  const leaf = await issueServingCertificate({ authority, hosts: HOSTS, nowMs: startMs });
  good = { ...leaf, authorities: authority.certificate, authorityKey: authority.key };
  noSigner = { ...good, authorityKey: "" };
});

const plan = (
  content: CertificateContent,
  { afterMs = 0, ours = true, hosts = HOSTS }: { afterMs?: number; ours?: boolean; hosts?: string[] } = {},
): CertificatePlan => planCertificates({ content, ours, hosts, lifetimes, nowMs: startMs + afterMs });

describe("files are of use", () => {
  it("when key, dates, hosts and authority are right, and authorities may be unknown", () => {
    expect(faultOf(good, HOSTS, startMs)).toBeUndefined();
    expect(faultOf({ ...good, authorities: "", authorityKey: "" }, HOSTS, startMs)).toBeUndefined();
  });

  it.each<[string, () => [CertificateContent, number?, string[]?]]>([
    ["there is no certificate", () => [NO_CONTENT]],
    ["the certificate cannot be read", () => [{ ...good, certificate: "garbage" }]],
    ["the private key does not belong to the certificate", () => [{ ...good, key: otherKey }]],
    ["the private key does not belong to the certificate", () => [{ ...good, key: "" }]],
    ["the certificate is not valid before 2026-11-21T07:00:00Z", () => [good, -2 * HOUR_MS]],
    ["the certificate expired at 2027-02-19T08:00:00Z", () => [good, 90 * DAY_MS]],
    ["the certificate is not valid for other.svc", () => [good, 0, ["webhook.svc", "other.svc"]]],
    ["no valid authority in the bundle signed the certificate", () => [{ ...good, authorities: "garbage" }]],
  ])("and not when %s", (fault, given) => {
    const [content, afterMs = 0, hosts = HOSTS] = given();
    expect(faultOf(content, hosts, startMs + afterMs)).toBe(fault);
  });

  it("with certificates in between that lead to the authority, and not without them", async () => {
    // Its path length is 0, which says nothing about who signed whom.
    const middle = await createAuthority({ nowMs: startMs });
    const leaf = await issueServingCertificate({ authority: middle, hosts: HOSTS, nowMs: startMs });
    const content = { ...good, ...leaf, authorities: middle.certificate };
    expect(faultOf(content, HOSTS, startMs)).toBeUndefined();
    const wrong = { ...content, authorities: authority.certificate };
    expect(faultOf(wrong, HOSTS, startMs)).toMatch(/^no valid authority/);
    const looped = { ...wrong, certificate: (leaf.certificate + middle.certificate).repeat(5) };
    expect(faultOf(looped, HOSTS, startMs)).toMatch(/^no valid authority/);
  });

  it("when the certificate itself is what clients trust", () => {
    const content = { ...good, authorities: good.certificate, authorityKey: "" };
    expect(faultOf(content, HOSTS, startMs)).toBeUndefined();
  });

  it("and the bundle holds the certificates of the file and nothing else of it", () => {
    expect(bundleOf({ ...good, authorities: `secret\n${authority.certificate}` })).toBe(
      authority.certificate,
    );
    expect(bundleOf({ ...good, authorities: "garbage" })).toBeUndefined();
  });
});

const looks = seededRun(50, process.env);

describe("content that was taken over", () => {
  it(
    `has at any time, also when clocks go back, the fault of its certificates, ${looks.name}`,
    looks.options,
    async () => {
      // The authority ends before the leaf, and one that has nothing to do with it begins later.
      const short = await createAuthority({ nowMs: startMs, validMs: 10 * DAY_MS });
      const leaf = await issueServingCertificate({ authority: short, hosts: HOSTS, nowMs: startMs });
      const later = await createAuthority({ nowMs: startMs + 5 * DAY_MS });
      const content = { ...leaf, authorities: short.certificate + later.certificate, authorityKey: "" };
      const standing = takeOver(content, undefined);
      const times = fc.array(fc.integer({ min: startMs - 2 * DAY_MS, max: startMs + 120 * DAY_MS }));
      const sound = fc.property(times, (all) => {
        for (const at of all) expect(standing.faultAt(at)).toBe(faultOf(content, [], at));
      });
      fc.assert(sound, looks.parameters);
      expect(standing.faultAt(startMs)).toBeUndefined();
      expect(standing.faultAt(startMs + 11 * DAY_MS)).toMatch(/^no valid authority/);
    },
  );

  it("is the same as long as nothing is other, and shows the same pair as long as that is", () => {
    const standing = takeOver(good, undefined);
    expect(takeOver({ ...good }, standing)).toBe(standing);
    const wider = takeOver({ ...good, authorities: good.authorities.repeat(2) }, standing);
    expect([wider.pair === standing.pair, wider.bundle]).toEqual([true, good.authorities.repeat(2)]);
  });
});

const expired = { afterMs: 100 * DAY_MS };
const theirs = { ours: false };
const rotten = { certificate: "x", key: "y", authorities: "z", authorityKey: "-----BEGIN" };

it.each<[string, string, () => [CertificateContent, Parameters<typeof plan>[1]?]]>([
  ["makeAll", "there are none", () => [NO_CONTENT]],
  ["makeAll", "nothing can sign", () => [{ ...good, certificate: "", authorityKey: otherKey }]],
  ["makeAll", "there is no authority", () => [{ ...good, authorities: "", authorityKey: "" }]],
  ["makeAll", "nothing is of use", () => [rotten]],
  ["makeAll", "no key of others fits", () => [{ ...good, authorityKey: otherKey, key: "" }, theirs]],
  ["issue", "the certificate is not of use", () => [{ ...good, certificate: "garbage" }]],
  ["issue", "its key is not of use", () => [{ ...good, key: otherKey }]],
  ["issue", "it has expired", () => [good, expired]],
  ["issue", "others made them, and it has expired", () => [good, { ...expired, ...theirs }]],
  ["addAuthority", "the authority's key is missing", () => [noSigner]],
  ["addAuthority", "the authority's key is garbage", () => [{ ...good, authorityKey: "garbage" }]],
  ["addAuthority", "the authority's key is of another", () => [{ ...good, authorityKey: otherKey }]],
  ["leave", "others made them, without a key", () => [{ ...noSigner, key: "" }, theirs]],
  ["leave", "expired, of others", () => [noSigner, { ...expired, ...theirs }]],
  ["leave", "others made none yet", () => [NO_CONTENT, theirs]],
])("the plan is %s when %s", (step, _when, given) => {
  expect(plan(...given())).toMatchObject({ step });
});

describe("the plan for files of ours", () => {
  it("is to wait until a third of the certificate's life is left", () => {
    expect(plan(good)).toEqual({ step: "wait", untilMs: startMs + 60 * DAY_MS });
    expect(plan(good, { afterMs: 60 * DAY_MS - 1000 })).toMatchObject({ step: "wait" });
    expect(plan(good, { afterMs: 60 * DAY_MS })).toMatchObject({ step: "issue", hosts: HOSTS });
  });

  it("keeps the hosts of others when they differ, so that two configurations do not fight", async () => {
    const next = plan(good, { hosts: ["new.svc"] });
    expect(next).toMatchObject({ step: "issue", hosts: ["new.svc", "webhook.svc", "127.0.0.1"] });
    const after = await carryOut(next, good, startMs, ["new.svc"]);
    expect(plan(after, { hosts: ["new.svc"] })).toMatchObject({ step: "wait" });
    expect(plan(after, { hosts: HOSTS })).toMatchObject({ step: "wait" });
  });

  it("is to make a new authority known when the key of the present one is lost", async () => {
    const next = await carryOut(plan(noSigner), noSigner, startMs);
    expect(next.certificate).toBe(good.certificate);
    expect(parseBundle(next.authorities)).toHaveLength(2);
    expect(plan(next)).toMatchObject({ step: "wait" });
  });

  it("is to sign at once when the certificate would expire before the new authority has settled", async () => {
    const lateMs = 90 * DAY_MS - 60_000;
    const next = await carryOut(plan(noSigner, { afterMs: lateMs }), noSigner, startMs + lateMs);
    expect(plan(next, { afterMs: lateMs })).toEqual({ step: "wait", untilMs: startMs + 90 * DAY_MS });
    expect(plan(next, { afterMs: 90 * DAY_MS })).toMatchObject({ step: "issue" });
  });
});

it("the plan for files of others is to wait while they are of use, and to warn when nobody renews them", () => {
  const foreign = plan(noSigner, theirs);
  expect([foreign.step, "warning" in foreign]).toEqual(["wait", false]);
  expect(plan(good, { ours: false, afterMs: 80 * DAY_MS })).toEqual({
    step: "wait",
    untilMs: startMs + 90 * DAY_MS,
    warning: "the certificate expires at 2027-02-19T08:00:00Z",
  });
});

const { parameters, options, name } = seededRun(8, process.env);

describe("over the years", () => {
  it(`clients can always be served, by an authority that they have known for an hour, ${name}`, options, () =>
    fc.assert(
      fc.asyncProperty(
        // How late each look may be, in hours: replicas restart, and the API server may be away.
        fc.array(fc.integer({ min: 0, max: 5 * 24 }), { minLength: 1, maxLength: 20 }),
        // Days that an authority is valid for.
        fc.integer({ min: 270, max: 1000 }),
        async (lateHours, caValidDays) => {
          const late = (look: number): number => (lateHours[look % lateHours.length] ?? 0) * HOUR_MS;
          const of = { ...lifetimes, caValidMs: caValidDays * DAY_MS };
          expect(await violationsOver(of, late)).toEqual([]);
        },
      ),
      parameters,
    ),
  );
});
