/** Certificates in Secrets of a real API server. What they are worth and when they are renewed is in `certificate-content.test.ts`. */
import { X509Certificate } from "node:crypto";
import { namespaces, type Secret, secrets } from "@berth/kube";
import { eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { createVirtualClock, type VirtualClock } from "../clock.ts";
import { createJsonLogger } from "../json-log.ts";
import { grant } from "../testing/grant.ts";
import { type LiveKeeper, launchKeeper } from "../testing/live-keeper.ts";
import { createAuthority, inspectCertificate, issueServingCertificate } from "./certificate-authority.ts";
import type { CertificateKeeperOptions } from "./certificate-keeper.ts";

const NAMESPACE = "certificates";
const HOSTS = ["webhook.certificates.svc"];
const DAY_MS = 24 * 60 * 60 * 1000;

let cluster: TestCluster;
let secretCount = 0;

beforeAll(async () => {
  cluster = await sharedTestCluster();
  await cluster.client.create(namespaces, { metadata: { name: NAMESPACE } });
});

type Of = CertificateKeeperOptions["secret"];

const nextSecret = (): Of => ({ namespace: NAMESPACE, name: `certificate-${++secretCount}` });
const read = (of: Of): Promise<Secret> => cluster.client.get(secrets, of);
const file = (secret: Secret, name: string): string =>
  Buffer.from(secret.data?.[name] ?? "", "base64").toString("utf8");

const launch = (of: Of, options: Partial<CertificateKeeperOptions> = {}): Promise<LiveKeeper> =>
  launchKeeper(of, { client: cluster.client, hosts: HOSTS, ...options });

/** Waits until the Secret is another than this version of it, with time passing for `live`. */
const changed = (of: Of, before: Secret, { clock }: { readonly clock: VirtualClock }): Promise<Secret> =>
  eventually(async () => {
    await clock.advance(1000);
    const now = await read(of);
    expect(now.metadata?.resourceVersion).not.toBe(before.metadata?.resourceVersion);
    return now;
  });

describe("a certificate keeper", () => {
  it("makes an authority and a certificate for its hosts, in a Secret of the type that other tools know", async () => {
    const of = nextSecret();
    await using live = await launch(of);
    expect(live.keeper.problem()).toMatch(
      /^secret "certificate-\d+" in namespace "certificates": no certificate yet/,
    );
    const certificate = await live.shows();
    const secret = await read(of);
    expect(secret).toMatchObject({
      type: "kubernetes.io/tls",
      metadata: { labels: { "app.kubernetes.io/managed-by": "berth" } },
    });
    expect(file(secret, "tls.crt")).toBe(certificate);
    expect(live.keeper.current()).toEqual({ certificate, key: file(secret, "tls.key") });
    expect(live.keeper.caBundle()).toBe(file(secret, "ca.crt"));
    expect(inspectCertificate(certificate)?.hosts).toEqual(HOSTS);
    const authority = new X509Certificate(live.keeper.caBundle() ?? "");
    expect(new X509Certificate(certificate).verify(authority.publicKey)).toBe(true);
    expect(live.keeper.problem()).toBeUndefined();
    expect(live.changes).toBe(1);
  });

  it("shares it: of many that begin together, one makes it and all show it", async () => {
    const of = nextSecret();
    await using stack = new AsyncDisposableStack();
    const all = await Promise.all(Array.from({ length: 4 }, () => launch(of)));
    for (const live of all) stack.use(live);
    const shown = await Promise.all(all.map((live) => live.shows()));
    expect(new Set(shown).size).toBe(1);
    expect(file(await read(of), "tls.crt")).toBe(shown[0]);
    expect(all.map(({ changes }) => changes)).toEqual([1, 1, 1, 1]);
    expect(all.map(({ keeper }) => keeper.problem())).toEqual([undefined, undefined, undefined, undefined]);
  });

  it("makes everything anew when the Secret is deleted, and logs nothing of either", async () => {
    const of = nextSecret();
    const lines: string[] = [];
    const log = createJsonLogger({ level: "debug", destination: { write: (line) => lines.push(line) } });
    await using live = await launch(of, { log });
    const before = await live.shows();
    const bundle = live.keeper.caBundle();
    const { data } = await read(of);
    await cluster.client.delete(secrets, of);
    await eventually(() => expect(live.changes).toBe(2));
    const now = await read(of);
    expect(await live.shows(file(now, "tls.crt"))).not.toBe(before);
    expect(live.keeper.caBundle()).not.toBe(bundle);
    expect(lines.length).toBeGreaterThan(3);
    for (const base64 of Object.values({ ...data, ...now.data })) {
      const [, body = "none"] = Buffer.from(base64, "base64").toString("utf8").split("\n");
      expect(lines.join("")).not.toContain(body);
      expect(lines.join("")).not.toContain(base64.slice(60, 120));
    }
  });

  it("repairs a Secret whose key is garbage, and never shows it", async () => {
    const of = nextSecret();
    await using live = await launch(of);
    await live.shows();
    const shown = new Set<string | undefined>();
    const garbage = Buffer.from("garbage").toString("base64");
    const broken = await cluster.client.patch(secrets, of, {
      type: "merge",
      body: { data: { "tls.key": garbage } },
    });
    const repaired = await eventually(async () => {
      shown.add(live.keeper.current()?.certificate);
      const now = await read(of);
      expect(now.metadata?.resourceVersion).not.toBe(broken.metadata?.resourceVersion);
      return now;
    });
    await live.shows(file(repaired, "tls.crt"));
    expect(live.keeper.current()?.key).toBe(file(repaired, "tls.key"));
    expect(live.keeper.caBundle()).toBe(file(repaired, "ca.crt"));
    expect([...shown]).not.toContain("garbage");
    expect(live.keeper.problem()).toBeUndefined();
  });

  it("renews a certificate once when a third of its life is left, however many look after it", async () => {
    const of = nextSecret();
    await using one = await launch(of);
    const certificate = await one.shows();
    await using other = await launch(of);
    await other.shows(certificate);
    const before = await read(of);
    await Promise.all([one.clock.advance(59 * DAY_MS), other.clock.advance(59 * DAY_MS)]);
    expect((await read(of)).metadata?.resourceVersion).toBe(before.metadata?.resourceVersion);
    await Promise.all([one.clock.advance(DAY_MS), other.clock.advance(DAY_MS)]);
    const after = await changed(of, before, one);
    await Promise.all([one, other].map((live) => live.shows(file(after, "tls.crt"))));
    expect(file(after, "ca.crt")).toBe(file(before, "ca.crt"));
    expect((await read(of)).metadata?.resourceVersion).toBe(after.metadata?.resourceVersion);
  });

  it("stops repairing for a while when somebody keeps undoing it, and begins again", async () => {
    const of = nextSecret();
    await using live = await launch(of);
    const good = await live.shows();
    const spoil = (): Promise<Secret> =>
      cluster.client.patch(secrets, of, { type: "merge", body: { data: { "tls.key": "" } } });
    // The one that made it counts as well.
    for (let round = 2; round <= 10; round++) {
      const { metadata } = await spoil();
      await eventually(async () =>
        expect((await read(of)).metadata?.resourceVersion).not.toBe(metadata?.resourceVersion),
      );
    }
    await eventually(async () => expect(live.keeper.current()?.key).toBe(file(await read(of), "tls.key")));
    const shown = live.keeper.current();
    expect(shown?.certificate).not.toBe(good);
    const spoiled = await spoil();
    await eventually(() => expect(live.keeper.problem()).toMatch(/another writer keeps undoing/));
    await live.clock.advance(60_000);
    expect((await read(of)).metadata?.resourceVersion).toBe(spoiled.metadata?.resourceVersion);
    expect(live.keeper.current()).toBe(shown);
    await live.clock.advance(10 * 60_000);
    await live.shows(file(await changed(of, spoiled, live), "tls.crt"));
    expect(live.keeper.problem()).toBeUndefined();
  });

  it("takes over what another writes, without a restart", async () => {
    const of = nextSecret();
    await using live = await launch(of);
    await live.shows();
    const { leaf, authority } = await issue(live.clock.now());
    const data = dataOf({ ...leaf, ca: authority.certificate, caKey: authority.key });
    await cluster.client.patch(secrets, of, { type: "merge", body: { data } });
    expect(await live.shows(leaf.certificate)).toBe(leaf.certificate);
    expect(live.keeper.caBundle()).toBe(authority.certificate);
  });
});

describe("a Secret of somebody else", () => {
  it("is used and never touched while it is good, and only reported when it has expired", async () => {
    const of = nextSecret();
    const { leaf, authority } = await issue(createVirtualClock().now());
    const data = dataOf({ ...leaf, ca: authority.certificate });
    await cluster.client.create(secrets, { type: "kubernetes.io/tls", metadata: of, data });
    const before = await read(of);
    await using live = await launch(of);
    await live.shows(leaf.certificate);
    expect(live.keeper.problem()).toBeUndefined();
    await live.clock.advance(91 * DAY_MS);
    await eventually(() => expect(live.keeper.problem()).toMatch(/expired at .*; its owner must repair it$/));
    expect(live.keeper.current()?.certificate).toBe(leaf.certificate);
    expect((await read(of)).metadata?.resourceVersion).toBe(before.metadata?.resourceVersion);
  });
});

it("without a right the keeper says which one is missing, and goes on once it is granted", async () => {
  const of = nextSecret();
  const user = await cluster.user(`keeper-${of.name}`);
  await using client = cluster.connect({ user });
  await using live = await launch(of, { client });
  await eventually(() =>
    expect(live.keeper.problem()).toMatch(/no certificate yet: .*list secrets in "certificates"/),
  );
  await using _seen = await grant(cluster, user.name, secrets, "list", "watch");
  await eventually(async () => {
    await live.clock.advance(5000);
    expect(live.keeper.problem()).toContain(
      'verb "create" on "secrets" in namespace "certificates" is missing',
    );
  });
  await using _made = await grant(cluster, user.name, secrets, "create");
  await eventually(async () => {
    await live.clock.advance(30_000);
    expect(live.keeper.problem()).toBeUndefined();
  });
  expect(live.keeper.current()?.certificate).toBe(file(await read(of), "tls.crt"));
});

async function issue(nowMs: number) {
  const authority = await createAuthority({ nowMs });
  return { authority, leaf: await issueServingCertificate({ authority, hosts: HOSTS, nowMs }) };
}

function dataOf({ certificate, key, ca, caKey }: Readonly<Record<string, string>>): Record<string, string> {
  const files = { "tls.crt": certificate, "tls.key": key, "ca.crt": ca, "ca.key": caKey };
  return Object.fromEntries(
    Object.entries(files).flatMap(([name, text]) =>
      text === undefined ? [] : [[name, Buffer.from(text).toString("base64")]],
    ),
  );
}
