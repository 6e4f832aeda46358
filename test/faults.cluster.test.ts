/**
 * Requests that fail, each on the real API server through a proxy. Afterwards the nodes are exactly right, no label
 * has flapped, and at rest nothing is written.
 */
import {
  isApiError,
  nodes,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from "@berth/kube";
import {
  conflict,
  cutAfterForwarding,
  cutBefore,
  delay,
  errorEvent,
  eventually,
  expired,
  garbage,
  hold,
  internalError,
  invalid,
  type RequestAction,
  sharedTestCluster,
  type TestCluster,
  tooManyRequests,
} from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { changeAll, followed, populate, READS, stage, WRITES } from "./upheaval.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedTestCluster();
});

describe("a write", () => {
  it.each<[string, RequestAction, number]>([
    ["409", conflict(), 3],
    ["422", invalid([{ field: "metadata.labels", message: "made up" }]), 1],
    ["500", internalError(), 5],
    ["cut", cutBefore({ scope: "connection" }), 5],
    ["lost", cutAfterForwarding(), 5],
    ["text", garbage(), 3],
    ["slow", delay(300), 4],
  ])("that meets this fault is made up for: %s", async (name, action, times) => {
    await using scene = await stage(cluster, `write-${name}`);
    using rule = scene.proxy.on(WRITES, action, { times });
    await changeAll(scene.world);
    await rule.until(times);
    await followed(scene.world);
    await expect(scene.berth.ready()).resolves.toBeUndefined();
  });

  it("that is answered 429 is not sent again before the server's Retry-After", async () => {
    await using scene = await stage(cluster, "write-429");
    using rule = scene.proxy.on(WRITES, tooManyRequests(1), { times: 4 });
    await changeAll(scene.world);
    await rule.until(4);
    await followed(scene.world);
    const patches = scene.proxy.requests.filter(({ verb }) => verb === "patch");
    const refused = patches.filter(({ status }) => status === 429);
    expect(refused).toHaveLength(4);
    for (const { name, at } of refused) {
      const next = patches.find((later) => later.name === name && later.at > at);
      expect((next?.at ?? 0) - at).toBeGreaterThan(990);
    }
  });

  it("that conflicts with a change the cache had not seen is decided again", async () => {
    await using scene = await stage(cluster, "write-real-409");
    const { world, proxy } = scene;
    const held = hold();
    using _rule = proxy.on(WRITES, held, { times: 1 });
    await world.label("n0", { "usb.present": null });
    await held.until();
    await world.annotate("n0", { "example.com/late": "1" });
    held.release();
    await world.right();
    await changeAll(world);
    await followed(world);
    expect(proxy.requests.filter(({ status }) => status === 409)).toHaveLength(1);
  });

  it("L-B4 that clears a label and is answered 409, which nothing explains, clears it all the same", async () => {
    await using scene = await stage(cluster, "b4");
    using rule = scene.proxy.on(WRITES, conflict(), { times: 1 });
    await scene.world.label("n0", { "usb.present": null });
    await rule.until();
    await scene.world.right();
    expect(scene.world.expected("n0")).not.toHaveProperty(["has/usb"]);
    await scene.world.restful();
  });

  it("that an admission policy refuses (422) costs only the label concerned, is told, and heals", async () => {
    await using world = await populate(cluster, "policy");
    await using _policy = await forbidLabel("has/usb");
    await using berth = await world.startInProcess({ pace: 20 });
    const others = new Map([...world.rules.files].filter(([file]) => file !== "has/usb"));
    world.followRules(() => new Map([...others, ["has/any", "usb.present\npci.present\n"]]));
    await world.right();
    await eventually(async () => {
      const refused = await world.events("WriteRefused");
      expect(refused.map(({ regarding }) => regarding?.name)).toContain("policy-n0");
    });
    expect((await world.events("WriteRefused"))[0]?.note).toContain("label/has/usb");
    await eventually(() => expect(berth.problems()).toEqual([]));
    await _policy[Symbol.asyncDispose]();
    world.followRules(() => world.rules.files);
    await changeAll(world);
    await followed(world);
  });
});

/** From now on the server refuses any change of this label, and says so as 422. */
async function forbidLabel(key: string): Promise<AsyncDisposable> {
  const { client } = cluster;
  const name = "forbid-label.example.com";
  const carries = (object: string): string =>
    `(has(${object}.metadata.labels) && '${key}' in ${object}.metadata.labels)`;
  await client.create(validatingAdmissionPolicies, {
    metadata: { name },
    spec: {
      failurePolicy: "Fail",
      matchConstraints: {
        resourceRules: [
          { apiGroups: [""], apiVersions: ["v1"], resources: ["nodes"], operations: ["UPDATE"] },
        ],
      },
      validations: [{ expression: `${carries("object")} == ${carries("oldObject")}`, reason: "Invalid" }],
    },
  });
  const validationActions = ["Deny"];
  await client.create(validatingAdmissionPolicyBindings, {
    metadata: { name },
    spec: { policyName: name, validationActions },
  });
  const [node] = (await client.list(nodes)).items;
  const isInForce = (): Promise<boolean> =>
    client
      .patch(
        nodes,
        { name: node?.metadata?.name ?? "" },
        { type: "merge", body: { metadata: { labels: { [key]: "probe" } } } },
        { dryRun: true },
      )
      .then(
        () => false,
        (error: unknown) => isApiError(error, "invalid"),
      );
  await eventually(async () => expect(await isInForce()).toBe(true));
  let lifted: Promise<void> | undefined;
  const lift = async (): Promise<void> => {
    await client.delete(validatingAdmissionPolicyBindings, { name });
    await client.delete(validatingAdmissionPolicies, { name });
    await eventually(async () => expect(await isInForce()).toBe(false));
  };
  return { [Symbol.asyncDispose]: () => (lifted ??= lift()) };
}

describe("the watch", () => {
  it.each<[string, RequestAction, number]>([
    ["410", expired(), 2],
    ["429", tooManyRequests(1), 2],
    ["500", internalError(), 3],
    ["cut", cutBefore(), 3],
    ["text", garbage(), 2],
    ["truncated", garbage("truncated"), 2],
  ])(
    "that is cut and meets this fault when it comes back shows everything again: %s",
    async (name, action, times) => {
      await using scene = await stage(cluster, `watch-${name}`);
      using rule = scene.proxy.on(READS, action, { times });
      expect(scene.proxy.cutStreams(READS)).toBe(1);
      await changeAll(scene.world);
      await rule.until(times);
      await followed(scene.world);
    },
  );

  it("that expires in the middle (an ERROR event with 410) begins anew", async () => {
    await using scene = await stage(cluster, "watch-error");
    using rule = scene.proxy.onWatchEvent({ type: "MODIFIED", resource: "nodes" }, errorEvent(410), {
      times: 2,
    });
    await changeAll(scene.world);
    await rule.until(2);
    await followed(scene.world);
    expect(await scene.berth.metric("berth_informer_failures_total", { failure: "expired" })).toBe(2);
  });
});
