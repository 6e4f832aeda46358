import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { type Clock, systemClock } from "../clock.ts";
import { createSilentLogger } from "../json-log.ts";
import { publish as publishAt } from "../testing/mounted.ts";
import { type CertificatePair, createAuthority, issueServingCertificate } from "./certificate-authority.ts";
import { type CertificateFolder, createCertificateFolder } from "./certificate-folder.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

async function launch(
  files: Readonly<Record<string, string>> | undefined,
  options: { readonly clock?: Clock; readonly hosts?: readonly string[] } = {},
) {
  const parent = await mkdtemp(join(tmpdir(), "berth-certificates-"));
  const path = join(parent, "tls");
  let revision = 0;
  let changes = 0;
  const publish = (files: Readonly<Record<string, string>>): Promise<void> =>
    publishAt(path, ++revision, files);
  if (files !== undefined) await publish(files);
  const folder = createCertificateFolder({
    path,
    log: createSilentLogger(),
    debounceMs: 20,
    settleMs: 100,
    onChange: () => changes++,
    ...options,
  });
  const stopping = new AbortController();
  const running = await folder.start(stopping.signal);
  return {
    folder,
    publish,
    get changes() {
      return changes;
    },
    [Symbol.asyncDispose]: async () => {
      stopping.abort();
      await running.ended;
      await rm(parent, { recursive: true });
    },
  };
}

const nowMs = Date.now();
const hosts = ["webhook.svc"];

async function issue(
  validMs = DAY_MS,
): Promise<CertificatePair & { readonly files: Record<string, string> }> {
  const authority = await createAuthority({ nowMs });
  const pair = await issueServingCertificate({ authority, hosts, nowMs, validMs });
  const files = { "tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.certificate };
  return { ...pair, files };
}

const shows = (
  live: { readonly folder: CertificateFolder },
  { certificate, key }: CertificatePair,
): Promise<void> => eventually(() => expect(live.folder.current()).toEqual({ certificate, key }));

describe("certificates in a folder", () => {
  it("are there once the files are, with the authority if it is one of them", async () => {
    await using live = await launch(undefined);
    await eventually(() => expect(live.folder.problem()).toMatch(/tls: the folder is missing$/));
    expect(live.folder.current()).toBeUndefined();
    const pair = await issue();
    await live.publish({ "tls.crt": pair.certificate });
    await eventually(() => expect(live.folder.problem()).toMatch(/: tls.key missing$/));
    await live.publish(pair.files);
    await shows(live, pair);
    await eventually(() => expect(live.folder.caBundle()).toBe(pair.files["ca.crt"]));
    expect(live.folder.problem()).toBeUndefined();
  });

  it("are taken over when they change, and are the same object until then", async () => {
    const [first, second] = await Promise.all([issue(), issue()]);
    await using live = await launch(first.files);
    await shows(live, first);
    expect(live.folder.current()).toBe(live.folder.current());
    await live.publish(second.files);
    await shows(live, second);
    expect(live.folder.caBundle()).toBe(second.files["ca.crt"]);
    const { changes } = live;
    await live.publish({ "tls.crt": second.certificate, "tls.key": second.key });
    await eventually(() => expect(live.folder.caBundle()).toBeUndefined());
    expect(live.changes).toBe(changes + 1);
  });

  it("stay as they were while the new ones are of no use, and that is said", async () => {
    const [first, second, expired] = await Promise.all([issue(), issue(), issue(0)]);
    await using live = await launch(first.files);
    await shows(live, first);
    const bad: [Record<string, string>, RegExp][] = [
      [{ ...first.files, "tls.crt": "garbage" }, /cannot be read$/],
      [{ ...first.files, "tls.crt": second.certificate }, /private key does not belong/],
      [{ "tls.crt": expired.certificate, "tls.key": expired.key }, /expired at/],
      [{ ...first.files, "ca.crt": second.files["ca.crt"] ?? "" }, /no valid authority/],
      [{ "tls.key": first.key }, /tls\.crt missing$/],
    ];
    for (const [files, problem] of bad) {
      await live.publish(files);
      await eventually(() => expect(live.folder.problem()).toMatch(problem));
      expect(live.folder.current()?.certificate).toBe(first.certificate);
      expect(live.folder.caBundle()).toBe(first.files["ca.crt"]);
    }
    await live.publish(second.files);
    await shows(live, second);
    await eventually(() => expect(live.folder.problem()).toBeUndefined());
  });

  it("are a problem once they expire, without a change", async () => {
    const pair = await issue();
    let aheadMs = 0;
    const clock: Clock = { ...systemClock, now: () => Date.now() + aheadMs };
    await using live = await launch(pair.files, { clock });
    await shows(live, pair);
    expect(live.folder.problem()).toBeUndefined();
    aheadMs = 2 * DAY_MS;
    expect(live.folder.problem()).toMatch(/expired at/);
    expect(live.folder.current()?.certificate).toBe(pair.certificate);
  });

  it("must be for the hosts that are asked for", async () => {
    const pair = await issue();
    await using live = await launch(pair.files, { hosts: ["other.svc"] });
    await eventually(() => expect(live.folder.problem()).toMatch(/not valid for other\.svc$/));
    expect(live.folder.current()).toBeUndefined();
  });
});
