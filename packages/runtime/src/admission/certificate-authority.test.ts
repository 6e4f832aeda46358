import { generateKeyPairSync } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  belongsTogether,
  createAuthority,
  inspectCertificate,
  isSignedBy,
  isSigningKey,
  issueServingCertificate,
  missingHosts,
  parseBundle,
  parseCertificate,
  toBundle,
} from "./certificate-authority.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const nowMs = Date.parse("2026-11-21T08:00:00.700Z");
const HOSTS = ["webhook.berth-system.svc", "127.0.0.1", "fd00::1"];

const first = (pem: string) => {
  const certificate = parseCertificate(pem);
  if (certificate === undefined) throw new Error("not a certificate");
  return certificate;
};

it("an authority is valid for ten years and may sign", async () => {
  const { certificate, key } = await createAuthority({ nowMs, name: "berth" });
  const facts = inspectCertificate(certificate);
  expect(facts).toEqual({
    notBeforeMs: Date.parse("2026-11-21T07:00:00Z"),
    notAfterMs: Date.parse("2036-11-18T08:00:00Z"),
    hosts: [],
    isAuthority: true,
  });
  expect(first(certificate).subject).toBe("CN=berth 2026-11-21T08:00:00.700Z");
  expect(isSigningKey(key)).toBe(true);
});

it("an authority has a key and a serial number of its own each time", async () => {
  const [a, b] = await Promise.all([createAuthority({ nowMs }), createAuthority({ nowMs })]);
  expect(a.key).not.toBe(b.key);
  expect(first(a.certificate).serialNumber).not.toBe(first(b.certificate).serialNumber);
});

describe("a serving certificate", () => {
  it("is valid for 90 days, for its hosts and no others, and is no authority", async () => {
    const authority = await createAuthority({ nowMs });
    const { certificate, key } = await issueServingCertificate({ authority, hosts: HOSTS, nowMs });
    expect(inspectCertificate(certificate)).toEqual({
      notBeforeMs: Date.parse("2026-11-21T07:00:00Z"),
      notAfterMs: Date.parse("2026-11-21T08:00:00Z") + 90 * DAY_MS,
      hosts: ["webhook.berth-system.svc", "127.0.0.1", "FD00:0:0:0:0:0:0:1"],
      isAuthority: false,
    });
    const leaf = first(certificate);
    expect(missingHosts(leaf, [...HOSTS, "other.svc", "127.0.0.2"])).toEqual(["other.svc", "127.0.0.2"]);
    expect(belongsTogether(leaf, key)).toBe(true);
    expect(belongsTogether(leaf, authority.key)).toBe(false);
    expect(isSignedBy(leaf, first(authority.certificate))).toBe(true);
    expect(isSignedBy(leaf, first((await createAuthority({ nowMs })).certificate))).toBe(false);
  });

  it("is refused without hosts, and with an authority that is garbage", async () => {
    const authority = await createAuthority({ nowMs });
    await expect(issueServingCertificate({ authority, hosts: [], nowMs })).rejects.toThrow(RangeError);
    const garbage = { certificate: "no", key: "no" };
    await expect(issueServingCertificate({ authority: garbage, hosts: HOSTS, nowMs })).rejects.toThrow(Error);
  });
});

describe("reading", () => {
  it("answers garbage with nothing", async () => {
    const { key } = await createAuthority({ nowMs });
    const begin = "-----BEGIN CERTIFICATE-----";
    for (const text of ["", "garbage", begin, `${begin}\nAAAA\n-----END CERTIFICATE-----\n`, key]) {
      expect(inspectCertificate(text)).toBeUndefined();
      expect(parseBundle(text)).toEqual([]);
      expect(isSigningKey(text)).toBe(text === key);
    }
  });

  it("never throws, whatever the text, and whatever one byte of a good one is changed to", async () => {
    const authority = await createAuthority({ nowMs });
    const { certificate } = await issueServingCertificate({ authority, hosts: HOSTS, nowMs });
    fc.assert(
      fc.property(fc.nat(certificate.length - 1), fc.string({ maxLength: 3 }), (at, text) => {
        const changed = certificate.slice(0, at) + text + certificate.slice(at + 1);
        const facts = inspectCertificate(changed);
        for (const one of parseBundle(changed)) missingHosts(one, HOSTS);
        expect(facts === undefined || Number.isFinite(facts.notBeforeMs + facts.notAfterMs)).toBe(true);
        expect(belongsTogether(first(certificate), changed)).toBe(false);
      }),
      { numRuns: 1000 },
    );
  });

  it("takes the certificates out of a bundle, whatever lies between them, and puts them together again", async () => {
    const [a, b] = await Promise.all([createAuthority({ nowMs }), createAuthority({ nowMs })]);
    const certificates = parseBundle(
      `# one\n${a.certificate}garbage\n\n${b.certificate}-----BEGIN CERTIFICATE-----`,
    );
    expect(toBundle(certificates)).toBe(a.certificate + b.certificate);
  });

  it("reads no more than 200 certificates of a text, in time that grows with its length only", async () => {
    const { certificate } = await createAuthority({ nowMs });
    expect(parseBundle(certificate.repeat(300))).toHaveLength(200);
    expect(parseBundle("-----BEGIN CERTIFICATE-----".repeat(40_000))).toEqual([]);
  });

  it("takes a key of another kind for none to sign with", () => {
    const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
    const p384 = generateKeyPairSync("ec", { namedCurve: "P-384" }).privateKey;
    for (const key of [rsa, p384]) {
      expect(isSigningKey(key.export({ type: "pkcs8", format: "pem" }) as string)).toBe(false);
    }
  });
});
