/** Reviews that a test sends itself, and a webhook that answers after Berth. */
import { once } from "node:events";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import {
  type KubeClient,
  type KubeObject,
  type MutatingWebhookConfiguration,
  mutatingWebhookConfigurations,
  type Pod,
} from "@berth/kube";
import { ARCHITECTURE_GATE } from "@berth/placement";
import { expect } from "vitest";
import { type ArchitectureFixture } from "./architecture-fixture.ts";
import { ask } from "./gate-admission.ts";

/** Everything of it but what Berth may add. */
export function othersOf({ spec }: Pod): object {
  const { affinity: _affinity, tolerations: _tolerations, schedulingGates = [], ...others } = spec ?? {};
  return { ...others, gates: schedulingGates.filter(({ name }) => name !== ARCHITECTURE_GATE) };
}

/** What Berth answers whoever asks it, as `op path` of each operation. Nobody stores the object. */
export async function reviewed(
  client: KubeClient,
  kind: "Pod" | "DaemonSet",
  object: KubeObject,
): Promise<readonly string[]> {
  const name = "berth-architecture";
  const { webhooks = [] } = await client.get(mutatingWebhookConfigurations, { name });
  const webhook = webhooks.find((it) => it.name.startsWith(`${kind.toLowerCase()}s.`));
  const { url = "", caBundle = "" } = webhook?.clientConfig ?? {};
  const request = {
    uid: "d4a1c1e0-0000-4000-8000-000000000002",
    kind: { group: kind === "Pod" ? "" : "apps", version: "v1", kind },
    resource: { group: kind === "Pod" ? "" : "apps", version: "v1", resource: `${kind.toLowerCase()}s` },
    namespace: object.metadata?.namespace,
    operation: "CREATE",
    userInfo: {},
    object,
  };
  const body = JSON.stringify({ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request });
  const answered = await ask(url, { ca: Buffer.from(caBundle, "base64").toString("utf8"), body });
  const { response } = JSON.parse(answered.body) as { response: { allowed: boolean; patch?: string } };
  expect(response.allowed).toBe(true);
  const text = Buffer.from(response.patch ?? "", "base64").toString("utf8") || "[]";
  const patch = JSON.parse(text) as { path: string; op: string }[];
  return patch.map(({ op, path }) => `${op} ${path}`);
}

/** Adds a container to pods with the label `inject`, after Berth has been asked. */
export async function injector(
  { cluster }: ArchitectureFixture,
  value: string,
  image: string,
): Promise<AsyncDisposable> {
  const patch = [{ op: "add", path: "/spec/containers/-", value: { name: "injected", image } }];
  const pair = await cluster.authority.issueServing(["127.0.0.1"]);
  const server: Server = createServer({ cert: pair.certificate, key: pair.key }, (incoming, outgoing) => {
    const answer = (chunks: readonly Buffer[]): void => {
      const { request } = JSON.parse(Buffer.concat(chunks).toString("utf8")) as {
        request: { uid: string; object: Pod };
      };
      const has = request.object.spec?.containers.some(({ name }) => name === "injected") === true;
      const encoded = Buffer.from(JSON.stringify(patch)).toString("base64");
      const response = {
        uid: request.uid,
        allowed: true,
        ...(!has && { patchType: "JSONPatch", patch: encoded }),
      };
      outgoing.setHeader("content-type", "application/json");
      outgoing.end(JSON.stringify({ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", response }));
    };
    incoming.toArray().then(answer, () => outgoing.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const name = `zz-injector-${value}`;
  const configuration: MutatingWebhookConfiguration = {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "MutatingWebhookConfiguration",
    metadata: { name },
    webhooks: [
      {
        name: `${value}.injector.test`,
        admissionReviewVersions: ["v1"],
        sideEffects: "None",
        failurePolicy: "Fail",
        clientConfig: {
          url: `https://127.0.0.1:${port}/`,
          caBundle: Buffer.from(cluster.authority.certificate).toString("base64"),
        },
        objectSelector: { matchLabels: { inject: value } },
        rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods"] }],
      },
    ],
  };
  await cluster.client.create(mutatingWebhookConfigurations, configuration);
  return {
    async [Symbol.asyncDispose]() {
      await cluster.client.delete(mutatingWebhookConfigurations, { name });
      server.closeAllConnections();
      const closed = once(server, "close");
      server.close();
      await closed;
    },
  };
}
