/** A real cluster with the kinds of Berth, and short words for what tests do there again and again. */
import {
  clusterRoleBindings,
  clusterRoles,
  customResourceDefinitions,
  type DaemonSet,
  type KubeClient,
  type KubeObject,
  type PolicyRule,
  pods,
  type Resource,
} from "@berth/kube";
import { eventually, type PodBuilder, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { expect } from "vitest";
import { crds, foreignKinds, servedKinds } from "../kinds.ts";

/** Whether the API server of the tests has MutatingAdmissionPolicies: from 1.36 on. */
export const hasPolicies: boolean = process.env["BERTH_KUBERNETES"] !== "1.35";

/** The shared cluster, which serves the kinds of Berth and of the projects that it works with. */
export async function clusterWithKinds(): Promise<TestCluster> {
  const cluster = await sharedTestCluster();
  await serveKinds(cluster.client);
  return cluster;
}

/** Resolves once the server serves the kinds. */
export async function serveKinds(client: KubeClient): Promise<void> {
  for (const crd of crds(foreignKinds())) await client.apply(customResourceDefinitions, crd);
  for (const { resource } of [...servedKinds, ...foreignKinds()])
    await eventually(() => client.list(resource));
}

/** `name`, or `namespace/name`. */
export function objectName(text: string): { readonly name: string; readonly namespace?: string } {
  const [first = "", second] = text.split("/");
  return second === undefined ? { name: first } : { namespace: first, name: second };
}

/** An object of Berth's kinds, as a user writes it. */
export function aDocument<T extends KubeObject>({ kind }: Resource<T>, name: string, spec: object): T {
  return { apiVersion: "berth.dev/v1alpha1", kind, metadata: { name }, spec } as unknown as T;
}

/** Waits until the object is like this, as `toMatchObject` compares. @param of `name`, or `namespace/name`. */
export function becomes<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  of: string,
  expected: object,
): Promise<void> {
  return eventually(async () => expect(await client.get(resource, objectName(of))).toMatchObject(expected));
}

/** A list with this among others, for `becomes`. */
export const among = (one: unknown): unknown => expect.arrayContaining([one]);

/** `nodes`, `pods/status`, `labelrules/status.berth.dev`: verbs and what they are for, as `get list nodes`. */
function toRule(line: string): PolicyRule {
  const [, verbs = "", resource = "", group = ""] = /^(.*) ([^. ]+)(?:\.(\S+))?$/.exec(line) ?? [];
  return { apiGroups: [group], resources: [resource], verbs: verbs.split(" ") };
}

/** Gives a user a ClusterRole of its own, until it is disposed. @param rules as `get list nodes`. */
export function grant(
  client: KubeClient,
  user: string,
  ...rules: readonly string[]
): Promise<AsyncDisposable> {
  const name = `${user.replaceAll(":", "-")}-${rules.join("-").replaceAll(/[^a-z]+/g, "-")}`;
  return giveRole(client, { name, user }, rules.map(toRule));
}

/** Creates a ClusterRole of this name and binds the user to it, until it is disposed. */
export async function giveRole(
  client: KubeClient,
  { name, user }: { readonly name: string; readonly user: string },
  rules: readonly PolicyRule[],
): Promise<AsyncDisposable> {
  const apiGroup = "rbac.authorization.k8s.io";
  await client.create(clusterRoles, { metadata: { name }, rules });
  await client.create(clusterRoleBindings, {
    metadata: { name },
    roleRef: { apiGroup, kind: "ClusterRole", name },
    subjects: [{ apiGroup, kind: "User", name: user }],
  });
  return {
    async [Symbol.asyncDispose]() {
      await client.delete(clusterRoleBindings, { name });
      await client.delete(clusterRoles, { name });
    },
  };
}

/** As the kubelet of its node has it: the pod is there and ready, its container has started. */
export async function runPod(client: KubeClient, builder: PodBuilder): Promise<void> {
  const pod = builder.ready().build();
  const { name = "", namespace = "default" } = pod.metadata ?? {};
  await client.create(pods, pod, { namespace });
  const started = { name: "main", ready: true, restartCount: 0, image: "x", imageID: "x" };
  const containerStatuses = [{ ...started, state: { running: { startedAt: new Date().toISOString() } } }];
  const body = { status: { ...pod.status, containerStatuses } };
  await client.patch(pods, { namespace, name }, { type: "merge", body }, { subresource: "status" });
}

interface DaemonSetInit {
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  /** Name of the container. Default `main`. */
  readonly container?: string;
  readonly image?: string;
  readonly tolerations?: readonly { readonly key?: string; readonly operator?: string }[];
}

/** Its pods have the label `app` with its name, unless others are given. */
export function aDaemonSet(name: string, init: DaemonSetInit = {}): DaemonSet {
  const { labels = { app: name }, annotations = {}, container = "main", tolerations } = init;
  const { image = "registry.test/agent:1" } = init;
  const spec = { containers: [{ name: container, image }], ...(tolerations && { tolerations }) };
  const template = { metadata: { labels, annotations }, spec };
  return { metadata: { name }, spec: { selector: { matchLabels: labels }, template } };
}
