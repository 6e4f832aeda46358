/** Elections over a Lease of a real API server. The rules themselves are in `leader-election.test.ts`, on a virtual clock. */
import { type KubeClient, type Lease, leases, namespaces } from "@berth/kube";
import { eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import type { LeaderElectionOptions } from "./leader-election.ts";
import { candidate } from "./testing/candidate.ts";
import { grant } from "./testing/grant.ts";

const NAMESPACE = "election";
let cluster: TestCluster;
let leaseCount = 0;

beforeAll(async () => {
  cluster = await sharedTestCluster();
  await cluster.client.create(namespaces, { metadata: { name: NAMESPACE } });
});

const nextLease = (): { namespace: string; name: string } => ({
  namespace: NAMESPACE,
  name: `lease-${++leaseCount}`,
});

const read = (lease: LeaderElectionOptions["lease"], client: KubeClient = cluster.client): Promise<Lease> =>
  client.get(leases, lease);

describe("an election", () => {
  it("writes a Lease that the server takes, with times in microseconds, and renews it", async () => {
    const lease = nextLease();
    await using one = candidate("one", lease, { client: cluster.client });
    await one.untilLeading();
    const first = await read(lease);
    expect(first.spec).toMatchObject({
      holderIdentity: "one",
      leaseDurationSeconds: 120,
      leaseTransitions: 0,
    });
    expect(first.spec?.renewTime).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
    await eventually(async () =>
      expect(Date.parse((await read(lease)).spec?.renewTime ?? "")).toBeGreaterThan(
        Date.parse(first.spec?.renewTime ?? ""),
      ),
    );
    expect((await read(lease)).spec?.acquireTime).toBe(first.spec?.acquireTime);
  });

  it("has one leader among many, and another as soon as that one gives the Lease up", async () => {
    const lease = nextLease();
    await using stack = new AsyncDisposableStack();
    const all = ["a", "b", "c"].map((identity) =>
      stack.use(candidate(identity, lease, { client: cluster.client })),
    );
    const leaders = () => all.filter(({ elector }) => elector.leading);
    await eventually(() => expect(leaders()).toHaveLength(1));
    const [first] = leaders();
    expect(await first?.stop()).toBe("stopped");
    await eventually(() => expect(leaders()).toHaveLength(1));
    const [second] = leaders();
    expect(second).not.toBe(first);
    expect(second?.began).toBeGreaterThan(first?.ended ?? Number.POSITIVE_INFINITY);
    const { spec } = await read(lease);
    expect(spec).toMatchObject({ holderIdentity: second?.elector.identity, leaseTransitions: 1 });
  });

  it("says what is missing without permission, and leads once that is granted", async () => {
    const lease = nextLease();
    await using client = cluster.connect({ user: await cluster.user("candidate") });
    // It says so when it has been without an answer for as long as a lease lasts.
    const brief = { leaseDurationMs: 3_000, renewDeadlineMs: 2_000 };
    await using one = candidate("one", lease, { client, ...brief });
    await eventually(() =>
      expect(one.elector.problem()).toMatch(
        /get leases\.coordination\.k8s\.io "lease-\d+" in "election".*candidate/,
      ),
    );
    await using _rights = await grant(cluster, "candidate", leases, "get", "create", "update");
    await one.untilLeading();
    expect(one.elector.problem()).toBeUndefined();
  });
});
