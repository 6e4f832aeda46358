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
  eventually,
  garbage,
  internalError,
  type RequestAction,
  sharedTestCluster,
} from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { changeAll, followed, populate, populateBehindProxy, WRITES } from "./label-faults.ts";

const cluster = await sharedTestCluster();

describe("a write", () => {
  it.each<[string, RequestAction, number]>([
    ["500", internalError(), 5],
    ["lost", cutAfterForwarding(), 5],
    ["text", garbage(), 3],
  ])("that meets this fault is made up for: %s", async (name, action, times) => {
    await using scene = await populateBehindProxy(cluster, `write-${name}`);
    using rule = scene.proxy.on(WRITES, action, { times });
    await changeAll(scene.fixture);
    await rule.until(times);
    await followed(scene.fixture);
    await expect(scene.berth.ready()).resolves.toBeUndefined();
  });

  it("L-B4 that clears a label and is answered 409, which nothing explains, clears it all the same", async () => {
    await using scene = await populateBehindProxy(cluster, "b4");
    using rule = scene.proxy.on(WRITES, conflict(), { times: 1 });
    await scene.fixture.label("n0", { "usb.present": null });
    await rule.until();
    await scene.fixture.right();
    expect(scene.fixture.expected("n0")).not.toHaveProperty(["has/usb"]);
    await scene.fixture.restful();
  });

  it("that an admission policy refuses (422) costs only the label concerned, is told, and heals", async () => {
    await using fixture = await populate(cluster, "policy");
    await using _policy = await forbidLabel("has/usb");
    await using berth = await fixture.startInProcess({ pace: 20 });
    const others = new Map([...fixture.rules.files].filter(([file]) => file !== "has/usb"));
    fixture.followRules(() => new Map([...others, ["has/any", "usb.present\npci.present\n"]]));
    await fixture.right();
    await eventually(async () => {
      const refused = await fixture.events("WriteRefused");
      expect(refused.map(({ regarding }) => regarding?.name)).toContain("policy-n0");
    });
    expect((await fixture.events("WriteRefused"))[0]?.note).toContain("label/has/usb");
    await eventually(() => expect(berth.problems()).toEqual([]));
    await _policy[Symbol.asyncDispose]();
    fixture.followRules(() => fixture.rules.files);
    await changeAll(fixture);
    await followed(fixture);
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
