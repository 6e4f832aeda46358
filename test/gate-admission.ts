/** What tests of admission have in common: a port for the webhook, questions to it, and nodes that are only tried out. */
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import { TLSSocket } from "node:tls";
import type { BerthOptions } from "@berth/cli";
import {
  isApiError,
  type KubeClient,
  type MutatingWebhookConfiguration,
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  mutatingWebhookConfigurations,
  type Node,
  nodes,
  type ObjectName,
  secrets,
  validatingWebhookConfigurations,
} from "@berth/kube";
import { aNode, eventually, findFreePort, type NodeBuilder, type TestCluster } from "@berth/testcluster";
import { createNamespace } from "./fixture.ts";
import { createGateFixture, type GateFixture, hasTaint } from "./gate-fixture.ts";

export type Admission = NonNullable<BerthOptions["admission"]>;
type Spec = Admission["spec"];

/** Where Berth keeps its own; there has to be such a namespace. */
export const NAMESPACE = "berth-system";
/** Of the gate `net`. */
export const BINDING: ObjectName = { name: "berth-gate-net" };
export const SECRET: ObjectName = { namespace: NAMESPACE, name: "berth-webhook-tls" };
export const CONFIGURATION: ObjectName = { name: "berth-startup-gate" };

/** A fixture after which nothing of admission is left. */
export async function createAdmissionFixture(cluster: TestCluster, name: string): Promise<GateFixture> {
  const fixture = await createGateFixture(cluster, name);
  fixture.owns(() => clearAdmission(cluster.client));
  await createNamespace(cluster, NAMESPACE);
  return fixture;
}

/** What the next test must not be helped, or hindered, by. */
async function clearAdmission(client: KubeClient): Promise<void> {
  const ignoreAbsent = (error: unknown): void => {
    if (!isApiError(error, "notFound")) throw error;
  };
  const ours = { labelSelector: "app.kubernetes.io/name=berth" };
  await client.deleteCollection(mutatingAdmissionPolicies, ours).catch(ignoreAbsent);
  await client.deleteCollection(mutatingAdmissionPolicyBindings, ours).catch(ignoreAbsent);
  await client.deleteCollection(mutatingWebhookConfigurations, {});
  await client.deleteCollection(validatingWebhookConfigurations, ours);
  await client.delete(secrets, SECRET).catch(ignoreAbsent);
  // The API server follows a moment later.
  await letIn(client);
}

type Shape = (builder: NodeBuilder) => NodeBuilder;

/** A node as the API server would store it now; it does not. */
export function tryNode(client: KubeClient, shape: Shape = (it) => it): Promise<Node> {
  return client.create(nodes, shape(aNode("tried")).build(), { dryRun: true });
}

/** Resolves once new nodes get the taint with this key from their first moment; by default that of the contract. */
export async function gatedAtCreation(client: KubeClient, key?: string): Promise<void> {
  await eventually(async () => {
    if (!hasTaint(await tryNode(client), key)) throw new Error("new nodes are not gated");
  });
}

/**
 * Makes a node that has the taint of the contract from its first moment. Where a webhook has not answered in time, on a
 * machine that stood still, a node comes without it, as its failurePolicy says: then another one is made.
 *
 * @returns its name.
 */
export async function addGated(fixture: GateFixture): Promise<string> {
  let made = 0;
  return eventually(async () => {
    made += 1;
    const node = `gated-${made}`;
    if (!hasTaint(await fixture.add(node))) throw new Error("new nodes are not gated");
    return node;
  });
}

/** Resolves once new nodes get none with this key; by default that of the contract. */
export async function letIn(client: KubeClient, key?: string): Promise<void> {
  await eventually(async () => {
    if (hasTaint(await tryNode(client), key)) throw new Error("new nodes are gated");
  });
}

/** A webhook of this process, at a port that was free a moment ago, and that no outgoing connection is given. */
export async function webhookAt(
  spec: Partial<Spec> = {},
): Promise<{ readonly admission: Admission; readonly url: string; readonly port: number }> {
  const port = await findFreePort();
  const url = `https://127.0.0.1:${port}`;
  const asked: Spec = {
    mode: "Webhook",
    bindAddress: `127.0.0.1:${port}`,
    url,
    failurePolicy: "Ignore",
    ...spec,
  };
  return { admission: { spec: asked, namespace: NAMESPACE }, url, port };
}

export interface Answered {
  readonly status: number;
  readonly body: string;
  /** Of the certificate that was shown. */
  readonly serial: string;
}

/** One question over a connection of its own. Without a body it is a GET. */
export async function ask(
  url: string,
  { ca, body }: { readonly ca: string; readonly body?: string },
): Promise<Answered> {
  const asking = request(url, {
    ca,
    agent: false,
    ...(body !== undefined && { method: "POST", headers: { "content-type": "application/json" } }),
  });
  const answering = once(asking, "response") as Promise<[IncomingMessage]>;
  asking.end(body);
  const [answer] = await answering;
  const { socket } = answer;
  const serial = socket instanceof TLSSocket ? socket.getPeerCertificate().serialNumber : "";
  const text = (await answer.setEncoding("utf8").toArray()).join("");
  return { status: answer.statusCode ?? 0, body: text, serial };
}

/** An AdmissionReview as the API server sends it, as far as it matters. */
export function review(
  object: Node,
  { operation = "CREATE", kind = "Node" }: { readonly operation?: string; readonly kind?: string } = {},
): object {
  return {
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request: {
      uid: "d4a1c1e0-0000-4000-8000-000000000001",
      kind: { group: "", version: "v1", kind },
      resource: { group: "", version: "v1", resource: `${kind.toLowerCase()}s` },
      name: object.metadata?.name,
      operation,
      userInfo: {},
      object,
      ...(operation === "UPDATE" && { oldObject: object }),
    },
  };
}

/** The configuration that nodetaintshandler comes with, with the caBundle of its author. */
export function originalConfiguration(url: string, ca: string): MutatingWebhookConfiguration {
  return {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "MutatingWebhookConfiguration",
    metadata: { name: "node-startup-taint" },
    webhooks: [
      {
        name: "nodestartup.taint.add.nodetaintshandler.io",
        admissionReviewVersions: ["v1"],
        sideEffects: "None",
        timeoutSeconds: 5,
        failurePolicy: "Ignore",
        clientConfig: { url: `${url}/mutate-node`, caBundle: Buffer.from(ca).toString("base64") },
        rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["nodes"] }],
      },
    ],
  };
}
