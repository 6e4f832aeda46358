/** Rules that validate, on a real API server: what it is told, what it asks, and what a client learns. */
import {
  clusterRoleBindings,
  clusterRoles,
  configMaps,
  type KubeClient,
  namespaces,
  pods,
  type ValidatingWebhookConfiguration,
  validatingWebhookConfigurations,
} from "@berth/kube";
import { type AdmissionRequest, createSilentLogger } from "@berth/runtime";
import { aPod, eventually, sharedTestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { ownerLabels } from "../product.ts";
import { ownUsername } from "./questions.ts";
import { reviewHandlers } from "./review.ts";
import { bindAdmission } from "./rules.ts";
import { INSTALLED, NO_CITY, runShapes, shapeRules } from "./testing/shapes.ts";

const NAMESPACE = "validated";
const NAME = { name: "berth-shapes" };
const cluster = await sharedTestCluster();
const { client } = cluster;
const never = new AbortController().signal;

/** May write what is reviewed, and use the network `blue`. */
async function connectAnn(): Promise<KubeClient> {
  const apiGroup = "rbac.authorization.k8s.io";
  const name = "validated-ann";
  await client.create(clusterRoles, {
    metadata: { name },
    rules: [
      { apiGroups: [""], resources: ["configmaps", "pods/status"], verbs: ["create", "patch"] },
      { apiGroups: ["networking.test"], resources: ["networks"], resourceNames: ["blue"], verbs: ["use"] },
    ],
  });
  await client.create(clusterRoleBindings, {
    metadata: { name },
    roleRef: { apiGroup, kind: "ClusterRole", name },
    subjects: [{ apiGroup, kind: "Group", name: "artists" }],
  });
  return cluster.connect({ user: await cluster.user("ann", ["artists"]) });
}

const shape = (name: string, data: Readonly<Record<string, string>>) => ({
  metadata: { name, namespace: NAMESPACE },
  data,
});
const ours = async (): Promise<readonly ValidatingWebhookConfiguration[]> => {
  const labelSelector = "app.kubernetes.io/component=shapes";
  return (await client.list(validatingWebhookConfigurations, { labelSelector })).items;
};

beforeAll(async () => {
  await client.create(namespaces, { metadata: { name: NAMESPACE } });
});

it.each(["Auto", "Webhook"] as const)(
  "keeps a ValidatingWebhookConfiguration at a URL, without a namespace, in mode %s",
  async (mode) => {
    await client.create(validatingWebhookConfigurations, {
      metadata: { name: "berth-shapes-before", labels: ownerLabels(INSTALLED, "shapes") },
    });
    const inForce = { isOn: true, except: "nobody", policy: {} };
    await using running = await runShapes(client, shapeRules(NAMESPACE), mode);
    running.set(inForce);
    const message = "the API server asks about shapes";
    await eventually(() =>
      expect(running.handle.state()).toEqual({ ready: true, reason: "AdmissionByWebhook", message }),
    );
    const isStored = (): Promise<void> =>
      eventually(async () =>
        expect(await ours()).toMatchObject([
          { metadata: NAME, webhooks: [{ name: "vshape.kb.io", failurePolicy: "Fail" }] },
        ]),
      );
    await isStored();

    const body = { webhooks: null };
    await client.patch(validatingWebhookConfigurations, NAME, { type: "merge", body });
    await isStored();

    running.set({ ...inForce, isOn: false });
    await eventually(async () => expect(await ours()).toEqual([]));
  },
);

describe("a client", () => {
  it("learns the causes of a denial, and its user and what it changes are told", async () => {
    const asked: AdmissionRequest[] = [];
    const except = await ownUsername(client, never);
    if (except === undefined) throw new Error("the API server does not know us");
    const rules = shapeRules(NAMESPACE, (request) => asked.push(request));
    await using running = await runShapes(client, rules, "Auto");
    running.set({ isOn: true, except, policy: {} });
    await using ann = await connectAnn();
    const create = (data: Readonly<Record<string, string>>) =>
      ann.create(configMaps, shape("one", data), { dryRun: true });
    await eventually(() =>
      expect(create({})).rejects.toMatchObject({
        message: expect.stringContaining(
          '"vshape.kb.io" denied the request: ConfigMap "one" is invalid: data.city: Required value',
        ),
        failure: { kind: "invalid", causes: [NO_CITY] },
      }),
    );
    expect(asked[0]).toMatchObject({
      operation: "CREATE",
      userInfo: {
        username: "ann",
        groups: ["artists", "system:authenticated"],
        extra: { "authentication.kubernetes.io/credential-id": [expect.stringContaining("X509SHA256=")] },
      },
    });
    expect((await create({ city: "AMS", network: "blue" })).data).toHaveProperty("city", "AMS");
    await expect(create({ network: "red" })).rejects.toMatchObject({
      failure: {
        kind: "invalid",
        causes: [NO_CITY, { reason: "FieldValueForbidden", message: "denied", field: "data.network" }],
      },
    });

    await client.create(pods, aPod("p").in(NAMESPACE).build());
    const patch = { type: "merge", body: { status: { message: "hello" } } } as const;
    const status = { subresource: "status", dryRun: true };
    const changed = ann.patch(pods, { namespace: NAMESPACE, name: "p" }, patch, status);
    await expect(changed).rejects.toMatchObject({ failure: { kind: "forbidden", ofObject: true } });
    expect(asked.at(-1)).toMatchObject({ operation: "UPDATE", subResource: "status", name: "p" });

    const count = asked.length;
    await client.create(configMaps, shape("ours", {}), { dryRun: true });
    expect(asked).toHaveLength(count);
  });
});

describe("a client without rights", () => {
  it("gets no answer about the access of a user, and no username with a wrong token", async () => {
    await using stranger = cluster.connect({ user: await cluster.user("validated-stranger") });
    const rules = bindAdmission(shapeRules(NAMESPACE), () => ({ isOn: true, except: "", policy: {} }));
    const env = { ...INSTALLED, spec: { failurePolicy: "Ignore" } } as const;
    const ask = reviewHandlers([rules], { client: stranger, env, log: createSilentLogger() });
    const request = {
      uid: "u",
      kind: { group: "", version: "v1", kind: "ConfigMap" },
      resource: { group: "", version: "v1", resource: "configmaps" },
      operation: "CREATE",
      object: shape("one", { city: "AMS", network: "blue" }),
      userInfo: { username: "ann" },
    } as const;
    expect(await ask["/validate-v1-shape"]?.(request, { signal: never })).toMatchObject({
      allowed: false,
      causes: [{ message: "failed" }],
    });
    expect(await ownUsername(stranger, never)).toBe("validated-stranger");
    await using wrong = cluster.connect({ user: { name: "x", groups: [], token: "wrong" } });
    expect(await ownUsername(wrong, never)).toBeUndefined();
  });
});
