import { X509Certificate } from "node:crypto";
import { createAuthority, type KeyPair } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { KubeconfigError } from "./kubeconfig-file.ts";
import { fingerprintOf, formatKubeconfig, parseKubeconfig } from "./kubeconfig-text.ts";

const SECRET = "s3cr3t-t0k3n";
const origin = "Secret berth/dfw-01";
const base64 = (text: string): string => Buffer.from(text).toString("base64");

let ca: string;
let client: KeyPair;
beforeAll(async () => {
  const authority = await createAuthority();
  ca = authority.certificate;
  client = await authority.issueClient("berth", []);
});

interface Entries {
  readonly cluster?: object;
  readonly user?: object;
}

/** A kubeconfig as JSON, which is YAML: one context with these fields beside a server and a token. */
const text = ({ cluster = {}, user = { token: SECRET } }: Entries, context = "c"): string =>
  JSON.stringify({
    clusters: [
      { name: "k", cluster: { server: "https://a:6443", ...cluster } },
      { name: "other", cluster: { server: "http://b", "proxy-url": "http://c" } },
    ],
    users: [
      { name: "u", user },
      { name: "other", user: { exec: { command: "rm" } } },
    ],
    contexts: [
      { name: "c", context: { cluster: "k", user: "u" } },
      { name: "other", context: { cluster: "other", user: "other" } },
    ],
    "current-context": context,
  });

const jwt = (claims: object): string =>
  ["{}", JSON.stringify(claims), "signature"].map((it) => Buffer.from(it).toString("base64url")).join(".");

const certified = (): object => ({
  "client-certificate-data": base64(client.certificate),
  "client-key-data": base64(client.key),
});

async function refusalOf(content: string): Promise<string> {
  const failure = await parseKubeconfig(content, { origin }).catch((error: unknown) => error);
  if (failure instanceof KubeconfigError) return failure.message;
  throw new Error("it was not refused as such", { cause: failure });
}

describe("the kubeconfig of a Secret", () => {
  it("is a server, its authority and a credential", async () => {
    const cluster = { "certificate-authority-data": base64(ca), "tls-server-name": "kubernetes" };
    const { connect } = await parseKubeconfig(text({ cluster }), { origin });
    expect(connect).toMatchObject({ server: "https://a:6443", ca, serverName: "kubernetes" });
    expect(await connect.credential.material()).toEqual({ authorization: `Bearer ${SECRET}` });
    const withCertificate = await parseKubeconfig(text({ user: certified() }), { origin });
    expect(await withCertificate.connect.credential.material()).toEqual({
      certificate: { cert: client.certificate, key: client.key },
    });
  });

  it.each<[string, () => object, number | undefined]>([
    ["a token that says nothing", () => ({ token: SECRET }), undefined],
    ["a JWT", () => ({ token: jwt({ exp: 1_900_000_000 }) }), 1_900_000_000_000],
    ["a JWT without an end", () => ({ token: jwt({ exp: "never" }) }), undefined],
    ["three words that are no JWT", () => ({ token: "a.b.c" }), undefined],
    ["a certificate", certified, 0],
  ])("says when its credential ends: %s", async (_, user, expected) => {
    const { expiresMs } = await parseKubeconfig(text({ user: user() }), { origin });
    const ofCertificate = new X509Certificate(client.certificate).validToDate.getTime();
    expect(expiresMs).toBe(expected === 0 ? ofCertificate : expected);
  });

  it("has a fingerprint of its credential alone", async () => {
    const of = async (entries: Entries): Promise<string> =>
      (await parseKubeconfig(text(entries), { origin })).fingerprint;
    const one = await of({});
    expect(await of({ cluster: { server: "https://elsewhere" } })).toBe(one);
    expect(await of({ user: { token: "another" } })).not.toBe(one);
    expect(await of({ user: certified() })).not.toBe(one);
    expect(one).not.toContain(SECRET);
  });

  const users: readonly (readonly [string, object, string])[] = [
    ["an exec plugin", { exec: { command: SECRET } }, "has an exec plugin"],
    ["an auth-provider", { "auth-provider": { name: SECRET } }, "has an auth-provider"],
    ["a token file", { tokenFile: `/${SECRET}` }, "tokenFile"],
    ["a certificate file", { "client-certificate": `/${SECRET}` }, "use client-certificate-data"],
    ["a key file", { "client-key": `/${SECRET}` }, "use client-key-data"],
    ["impersonation", { as: SECRET }, "impersonation (as)"],
    ["impersonation of a group", { "as-groups": [SECRET] }, "impersonation (as-groups)"],
    ["impersonation of a uid", { "as-uid": SECRET }, "impersonation (as-uid)"],
    ["impersonation with extra", { "as-user-extra": { a: [SECRET] } }, "impersonation (as-user-extra)"],
  ];
  it.each(users)("with %s of its user is refused", async (_, fields, why) => {
    const message = await refusalOf(text({ user: { token: SECRET, ...fields } }));
    expect(message).toContain(`user "u" of ${origin}`);
    expect(message).toContain(why);
    expect(message).not.toContain(SECRET);
  });

  const clusters: readonly (readonly [string, object, string])[] = [
    ["a CA file", { "certificate-authority": `/${SECRET}` }, "use certificate-authority-data"],
    ["a server that is not verified", { "insecure-skip-tls-verify": true }, "skips the verification"],
    ["a proxy", { "proxy-url": `http://${SECRET}` }, "proxy-url"],
    ["plain http", { server: `http://${SECRET}` }, "not https"],
    ["plain http on this machine", { server: "http://127.0.0.1:8001" }, "not https"],
    ["another scheme", { server: `unix:///${SECRET}` }, "not https"],
    ["no scheme", { server: SECRET }, "not https"],
    ["a password in the address", { server: `https://me:${SECRET}@a` }, "without user and password"],
    ["no server", { server: "" }, "has no server"],
  ];
  it.each(clusters)("with %s is refused", async (_, cluster, why) => {
    const message = await refusalOf(text({ cluster }));
    expect(message).toContain(origin);
    expect(message).toContain(why);
    expect(message).not.toContain(SECRET);
  });

  it.each<[string, () => string, string]>([
    ["no credential", () => text({ user: {} }), "has no credential"],
    ["an empty token", () => text({ user: { token: "" } }), "has no credential"],
    ["a key without its certificate", () => text({ user: { "client-key-data": base64(SECRET) } }), "key"],
    ["no context of that name", () => text({}, "gone"), 'no context "gone"'],
    ["no YAML", () => `users: [${SECRET}`, "is not YAML"],
    ["nothing in it", () => "", "is empty"],
    [
      "a CA that is none",
      () => text({ cluster: { "certificate-authority-data": base64(SECRET) } }),
      "cannot be used",
    ],
    [
      "a key that is none",
      () => text({ user: { ...certified(), "client-key-data": base64(SECRET) } }),
      "cannot be used",
    ],
  ])("with %s is refused", async (_, content, why) => {
    const message = await refusalOf(content());
    expect(message).toContain(why);
    expect(message).not.toContain(SECRET);
  });

  it("may hold other entries that would be refused; one is chosen by its context", async () => {
    expect((await parseKubeconfig(text({}, "other"), { origin, context: "c" })).origin).toContain('"c"');
    expect(await refusalOf(text({}, "other"))).toContain("has an exec plugin");
  });

  it.each<[string, () => object]>([
    ["a token", () => ({ token: SECRET })],
    ["a password with a colon", () => ({ username: "me", password: `a:${SECRET} b` })],
    ["a certificate", certified],
  ])("with %s is written anew without its other entries", async (_, user) => {
    const cluster = { "certificate-authority-data": base64(ca), "tls-server-name": "kubernetes" };
    const given = await parseKubeconfig(text({ cluster, user: user() }), { origin });
    const written = await formatKubeconfig(given);
    expect(written).not.toContain("exec");
    const again = await parseKubeconfig(written, { origin });
    const { credential, ...rest } = again.connect;
    const { credential: before, ...same } = given.connect;
    expect(rest).toEqual(same);
    expect(await credential.material()).toEqual(await before.material());
    expect(again.fingerprint).toBe(given.fingerprint);
    expect(fingerprintOf(await before.material())).toBe(given.fingerprint);
  });
});
