import {
  type ApiFailure,
  type ConfigMap,
  configMaps,
  isApiError,
  mutatingWebhookConfigurations,
  namespaces,
} from "@berth/kube";
import { eventually, type TestCluster } from "@berth/testcluster";
import { expect } from "vitest";
import type { AdmissionRequest } from "../admission/review.ts";
import type { AdmissionHandler } from "../admission/review-exchange.ts";
import { startAdmissionServer } from "../admission/server.ts";
import { createSilentLogger } from "../json-log.ts";

let count = 0;

export interface RegisteredWebhook extends AsyncDisposable {
  readonly namespace: string;
  readonly server: Awaited<ReturnType<typeof startAdmissionServer>>;
  /** What the server was asked, but about the sentinel. */
  readonly asked: readonly AdmissionRequest[];
  readonly create: (name: string, dryRun?: boolean) => Promise<ConfigMap>;
}

/** A server, and a webhook that sends it the ConfigMaps of a namespace of its own. Resolves once it is asked. */
export async function register(
  cluster: TestCluster,
  failurePolicy: "Fail" | "Ignore",
  handler: AdmissionHandler,
): Promise<RegisteredWebhook> {
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

export async function failureOf(promise: Promise<unknown>): Promise<ApiFailure> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (isApiError(error)) return error.failure;
  throw new Error("it did not fail with an ApiError", { cause: error });
}
