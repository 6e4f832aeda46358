import { expect, it } from "vitest";
import { createVirtualClock } from "../clock.ts";
import { createSilentLogger } from "../json-log.ts";
import { inspectCertificate } from "./certificate-authority.ts";
import { faultOf, NO_CONTENT } from "./certificate-content.ts";
import { createCertificateMemory } from "./certificate-memory.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const hosts = ["127.0.0.1"];

it("certificates in memory are there soon after the start, and renewed before their end by the same authority", async () => {
  const clock = createVirtualClock();
  let changes = 0;
  const changed = Promise.withResolvers<void>();
  const renewed = Promise.withResolvers<void>();
  const source = createCertificateMemory({
    hosts,
    clock,
    log: createSilentLogger(),
    onChange: () => [changed, renewed][changes++]?.resolve(),
  });
  const stopping = new AbortController();
  expect(source.problem()).toBe("there is no certificate yet");
  const { ended } = await source.start(stopping.signal);
  await changed.promise;
  const [first, authorities = ""] = [source.current(), source.caBundle()];
  const content = { ...NO_CONTENT, certificate: "", ...first, authorities };
  expect(faultOf(content, hosts, clock.now())).toBeUndefined();
  expect(source.problem()).toBeUndefined();

  await clock.advance(59 * DAY_MS);
  expect(source.current()).toBe(first);
  await clock.advance(2 * DAY_MS);
  await renewed.promise;
  expect(source.current()).not.toBe(first);
  expect(source.caBundle()).toBe(authorities);
  const endMs = inspectCertificate(source.current()?.certificate ?? "")?.notAfterMs ?? 0;
  expect(endMs).toBeGreaterThan(clock.now() + 88 * DAY_MS);
  stopping.abort();
  await ended;
  expect(changes).toBe(2);
});

it("certificates in memory need a host", async () => {
  const source = createCertificateMemory({ hosts: [], log: createSilentLogger() });
  const { ended } = await source.start(new AbortController().signal);
  await expect(ended).rejects.toThrow("a serving certificate needs at least one host");
});
