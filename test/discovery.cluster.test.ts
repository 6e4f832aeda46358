/** What a missing API costs a server at rest, by its audit log. */
import { defineResource, type Resource } from "@berth/kube";
import { clusterName, createInformer, createSilentLogger, guardClient } from "@berth/runtime";
import { eventually, sharedTestCluster } from "@berth/testcluster";
import { expect, it } from "vitest";
import { createLeapingClock } from "./leaping-clock.ts";

const PLANES = 20;
const MINUTE_MS = 60_000;

const kind = (plural: string, group: string): Resource =>
  defineResource({ group: `${group}.rest.test`, version: "v1", plural, kind: plural, namespaced: true });
const missing = [kind("claims", "quota"), kind("things", "one"), kind("others", "one")];

it("B12 20 planes without three kinds: at rest each is asked for discovery once in 5 minutes, and for nothing else", async () => {
  const cluster = await sharedTestCluster();
  await using stack = new AsyncDisposableStack();
  const [clock, log, stop] = [createLeapingClock(), createSilentLogger(), new AbortController()];
  stack.defer(() => stop.abort());
  const begun = await cluster.audit.mark();
  const informers = Array.from({ length: PLANES }, (_, at) => {
    const userAgent = `plane-${at}-of-the-test`;
    const plane = guardClient(stack.use(cluster.connect({ userAgent })), { clock, log });
    return missing.map((resource) => {
      const of = { client: plane, cluster: clusterName("local"), resource, optional: true };
      return createInformer({ ...of, clock, log });
    });
  }).flat();
  await Promise.all(informers.map((informer) => informer.start(stop.signal)));
  expect(informers.every(({ absent }) => absent)).toBe(true);
  // Until the waits have their full length: 5 s, 10 s, 20 s and so on.
  await clock.leap(20 * MINUTE_MS);
  const ofPlanes = async (): Promise<readonly string[]> =>
    (await cluster.audit.entriesSince(begun))
      .filter(({ userAgent }) => userAgent.endsWith("-of-the-test"))
      .map(({ userAgent, verb, requestUri }) => `${userAgent} ${verb} ${requestUri}`);
  const early = await ofPlanes();
  await clock.leap(30 * MINUTE_MS);
  const atRest = await eventually(async () => {
    const all = await ofPlanes();
    expect(all.length).toBeGreaterThanOrEqual(early.length + PLANES * 5);
    return all.slice(early.length);
  });
  const byRequest = Object.entries(Object.groupBy(atRest, (one) => one));
  expect(byRequest.map(([one]) => one).toSorted()).toEqual(
    Array.from({ length: PLANES }, (_, at) => `plane-${at}-of-the-test get /apis`).toSorted(),
  );
  for (const [, requests] of byRequest) expect(requests?.length).toBeLessThanOrEqual(6);
});
