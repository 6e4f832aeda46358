/** What a real API server makes of an admission server: its patches, its certificate, its errors and its absence. */
import {
  type ApiFailure,
  type ConfigMap,
  configMaps,
  isApiError,
  mutatingWebhookConfigurations,
  namespaces,
} from "@berth/kube";
import { eventually, sharedTestCluster } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { createSilentLogger } from "../json-log.ts";
import type { AdmissionRequest } from "./review.ts";
import type { AdmissionHandler } from "./review-exchange.ts";
import { startAdmissionServer } from "./server.ts";

let count = 0;

const cluster = await sharedTestCluster();

const label: AdmissionHandler = ({ operation }) =>
  operation === "CREATE"
    ? {
        allowed: true,
        patch: [{ op: "add", path: "/metadata/labels", value: { seen: "yes" } }],
        warnings: ["labelled"],
      }
    : { allowed: true };

/** A server, and a webhook that sends it the ConfigMaps of a namespace of its own. Resolves once it is asked. */
async function register(failurePolicy: "Fail" | "Ignore", handler: AdmissionHandler) {
  await using owned = new AsyncDisposableStack();
  const namespace = `admitted-${++count}`;
  await cluster.client.create(namespaces, { metadata: { name: namespace } });
  const asked: AdmissionRequest[] = [];
  const certificate = await cluster.authority.issueServing(["127.0.0.1"]);
  const server = owned.use(
    await startAdmissionServer({
      bindAddress: "127.0.0.1:0",
      certificate: () => certificate,
      handlers: {
        "/label": (request, context) => {
          // That of the sentinel below, which only finds out whether the webhook is in force.
          if (request.name === "sentinel") return { allowed: false, message: "in force" };
          asked.push(request);
          return handler(request, context);
        },
      },
      ready: () => true,
      log: createSilentLogger(),
    }),
  );
  await cluster.client.create(mutatingWebhookConfigurations, {
    metadata: { name: namespace },
    webhooks: [
      {
        name: "label.admission.test",
        admissionReviewVersions: ["v1"],
        sideEffects: "None",
        failurePolicy,
        timeoutSeconds: 30, // the most it allows: a machine that stands still is no failure of the webhook
        clientConfig: { url: `${server.url}/label`, caBundle: Buffer.from(cluster.ca).toString("base64") },
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
        rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["*"], resources: ["configmaps"] }],
      },
    ],
  });
  owned.defer(async () => {
    await cluster.client.delete(mutatingWebhookConfigurations, { name: namespace });
  });
  const create = (name: string, dryRun = false): Promise<ConfigMap> =>
    cluster.client.create(configMaps, { metadata: { name, namespace } }, { dryRun });
  await eventually(async () => {
    const failure = await failureOf(create("sentinel", true));
    expect(failure.kind).toBe("forbidden");
  });
  const running = owned.move();
  return { namespace, server, asked, create, [Symbol.asyncDispose]: () => running.disposeAsync() };
}

async function failureOf(promise: Promise<unknown>): Promise<ApiFailure> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (isApiError(error)) return error.failure;
  throw new Error("it did not fail with an ApiError", { cause: error });
}

describe("a webhook of the API server", () => {
  it("has its patch stored, and is told what is done to what", async () => {
    await using webhook = await register("Fail", label);
    const { namespace } = webhook;
    expect((await webhook.create("a")).metadata?.labels).toEqual({ seen: "yes" });
    expect((await webhook.create("b", true)).metadata?.labels).toEqual({ seen: "yes" });
    const body = { data: { a: "1" } };
    await cluster.client.patch(configMaps, { namespace, name: "a" }, { type: "merge", body });
    await cluster.client.delete(configMaps, { namespace, name: "a" });
    const common = {
      kind: { group: "", version: "v1", kind: "ConfigMap" },
      resource: { group: "", version: "v1", resource: "configmaps" },
      namespace,
      userInfo: { username: "admin" },
    };
    expect(webhook.asked).toMatchObject([
      { ...common, name: "a", operation: "CREATE", dryRun: false, object: { metadata: { name: "a" } } },
      { ...common, name: "b", operation: "CREATE", dryRun: true },
      { ...common, name: "a", operation: "UPDATE", object: body, oldObject: { metadata: { name: "a" } } },
      { ...common, name: "a", operation: "DELETE", oldObject: body },
    ]);
    expect(webhook.asked.map(({ object }) => object === undefined)).toEqual([false, false, false, true]);
  });

  it("that fails or is not there lets objects through with Ignore, and keeps them out with Fail", async () => {
    const fails: AdmissionHandler = ({ name }) => {
      if (name === "broken") throw new Error("no");
      return { allowed: name !== "denied", message: "not this one" };
    };
    await using lenient = await register("Ignore", fails);
    await using strict = await register("Fail", fails);
    expect((await lenient.create("broken")).metadata?.name).toBe("broken");
    expect((await failureOf(strict.create("broken"))).kind).toBe("serverError");
    expect((await failureOf(lenient.create("denied"))).kind).toBe("forbidden");
    await expect(strict.create("denied")).rejects.toThrow("denied the request: not this one");
    await Promise.all([lenient.server, strict.server].map((server) => server[Symbol.asyncDispose]()));
    expect((await lenient.create("alone")).metadata?.name).toBe("alone");
    expect((await failureOf(strict.create("alone"))).kind).toBe("serverError");
  });
});
