/**
 * The API server away, its history gone, the network broken: real processes that end and real packets that are lost.
 * Afterwards the nodes are exactly right, no label has flapped, and at rest nothing is written.
 */
import type { RunningBerth } from "@berth/cli";
import { cutBefore, eventually, sharedTestCluster, startTcpProxy, type TcpProxy } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import {
  changeAll,
  changeNodes,
  changeRules,
  followed,
  populate,
  populateBehindProxy,
  READS,
} from "./label-faults.ts";
import { RECONNECTED } from "./patience.ts";
import { sumOfSamples } from "./product.ts";

const cluster = await sharedTestCluster();
describe("the API server", () => {
  it("that ends and comes back finds Berth at work", async () => {
    await using fixture = await populate(cluster, "restart");
    const berth = await fixture.start();
    await fixture.right();
    await cluster.stopComponent("kube-apiserver", "SIGTERM");
    await fixture.rules.write("pool/blue", "pool", "usb.present");
    await cluster.startComponent("kube-apiserver");
    await changeAll(fixture);
    await followed(fixture, RECONNECTED);
    await expect(berth.ready()).resolves.toBeUndefined();
  });

  it("whose history was compacted while Berth saw nothing has everything told again", async () => {
    await using scene = await populateBehindProxy(cluster, "compacted");
    const { fixture, proxy, berth } = scene;
    {
      using gone = proxy.on(READS, cutBefore());
      proxy.cutStreams();
      await gone.until();
      await changeAll(fixture);
      await cluster.compact();
      await cluster.stopComponent("kube-apiserver", "SIGKILL");
      await cluster.startComponent("kube-apiserver");
    }
    await followed(fixture, RECONNECTED);
    expect(await berth.metric("berth_informer_failures_total", { failure: "expired" })).toBeGreaterThan(0);
  });
});

describe("the network", () => {
  it.each<[string, (link: TcpProxy) => void]>([
    ["refuse", (link) => (link.resetAll(), link.refuse())],
    ["answers-dropped", (link) => link.serverToClient.drop()],
    ["stalled", (link) => link.stall()],
  ])("that fails like this is noticed and overcome: %s", async (name, fail) => {
    await using fixture = await populate(cluster, `net-${name}`);
    await using link = await startTcpProxy({ target: new URL(cluster.url) });
    const berth = await fixture.startInProcess({ server: link.url, silenceMs: 1500 });
    await fixture.right();
    fail(link);
    await changeNodes(fixture);
    await eventually(async () => expect(await watchFailures(berth)).toBeGreaterThan(0));
    link.pass();
    await changeRules(fixture);
    await followed(fixture, RECONNECTED);
    await eventually(() => expect(berth.problems()).toEqual([]), RECONNECTED);
  });

  it("that swallows writes on their way is waited for no longer than a request may take", async () => {
    await using fixture = await populate(cluster, "net-dropped");
    await using link = await startTcpProxy({ target: new URL(cluster.url) });
    const berth = await fixture.startInProcess({ server: link.url, silenceMs: 1500 });
    await fixture.right();
    link.drop();
    await changeAll(fixture);
    // More than the pings on the way to a dead connection: a patch.
    await link.until(({ clientToServer }) => clientToServer.dropped > 600);
    await eventually(async () => expect(await watchFailures(berth)).toBeGreaterThan(0));
    link.pass();
    await followed(fixture, RECONNECTED);
    await eventually(() => expect(berth.problems()).toEqual([]), RECONNECTED);
  });
});

async function watchFailures({ metrics }: RunningBerth): Promise<number> {
  const { body } = await metrics.expose();
  return sumOfSamples(body, "berth_informer_failures_total");
}
