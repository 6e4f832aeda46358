/** What a missing API costs a server at rest, by its audit log. */
import { defineResource, type Resource } from "@berth/kube";
import { clusterName, createInformer, createSilentLogger, guardClient } from "@berth/runtime";
import { type AuditMark, eventually, sharedTestCluster } from "@berth/testcluster";
import { expect, it } from "vitest";
import { createLeapingClock } from "./clocks.ts";

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
  const ofPlanes = async (mark: AuditMark): Promise<readonly string[]> =>
    (await cluster.audit.entriesSince(mark))
      .filter(({ userAgent }) => userAgent.endsWith("-of-the-test"))
      .map(({ userAgent, verb, requestUri }) => `${userAgent} ${verb} ${requestUri}`);
  const leapt = async (minutes: number): Promise<readonly string[]> => {
    const mark = await cluster.audit.mark();
    await clock.leap(minutes * MINUTE_MS);
    return ofPlanes(mark);
  };
  // Until the waits have their full length: 5 s, 10 s, 20 s and so on. A busy machine takes longer for that.
  await clock.leap(15 * MINUTE_MS);
  await eventually(async () => expect((await leapt(5)).length).toBeLessThanOrEqual(PLANES));
  const atRest = await leapt(30);
  const byRequest = Object.entries(Object.groupBy(atRest, (one) => one));
  expect(byRequest.map(([one]) => one).toSorted()).toEqual(
    Array.from({ length: PLANES }, (_, at) => `plane-${at}-of-the-test get /apis`).toSorted(),
  );
  for (const [, requests] of byRequest) expect(requests?.length).toBeLessThanOrEqual(7);
});
