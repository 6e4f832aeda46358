/** An API server whose webhooks no server answers: what it asks about, it refuses. */
import { SYSTEM_NAMESPACES } from "@berth/host";
import {
  daemonSets,
  isApiError,
  type KubeClient,
  mutatingWebhookConfigurations,
  namespaces,
  type Pod,
  type PodSpec,
  pods,
  type Toleration,
} from "@berth/kube";
import { aPod, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { configurationOf } from "../../node/testing/configuration.ts";
import { architectureAdmission } from "../admission.ts";
import { sightOf } from "./observations.ts";
import { type PolicyInit, policiesOf } from "./policies.ts";

/** Berth's own namespace. */
export const OWN = "berth-system";
const labelled = {
  [OWN]: {},
  plain: {},
  ignored: { "berth.dev/architecture": "ignore" },
  selected: { team: "a", zone: "1" },
  excluded: {},
};
const NO_SERVER = "https://127.0.0.1:1";

export class AskingServer {
  readonly #cluster: TestCluster;
  /** All that there are. */
  readonly namespaces: readonly string[] = [...SYSTEM_NAMESPACES, ...Object.keys(labelled)];

  /** Use `askingServer`. */
  constructor(cluster: TestCluster) {
    this.#cluster = cluster;
  }

  get client(): KubeClient {
    return this.#cluster.client;
  }

  isAsked(pod: Pod): Promise<boolean> {
    return refused(this.client.create(pods, pod, { namespace: pod.metadata?.namespace ?? "", dryRun: true }));
  }

  isDaemonSetAsked(tolerations: readonly Toleration[], namespace = "plain"): Promise<boolean> {
    return refused(this.client.create(daemonSets, daemonSet(tolerations), { namespace, dryRun: true }));
  }

  /** Resolves when the API server asks, and on disposal when it has stopped to. Its own webhook, first, tells. */
  async inForce(
    policies: Readonly<Record<string, PolicyInit>>,
    failurePolicy: "Fail" | "Ignore" = "Fail",
  ): Promise<AsyncDisposable> {
    const rules = architectureAdmission({
      architectureOf: () => undefined,
      namespaceLabels: () => undefined,
      ownNamespace: OWN,
      observations: sightOf({}),
      now: () => 0,
      onPod: () => undefined,
    });
    const made = configurationOf(rules, policiesOf(policies), {
      client: { url: NO_SERVER },
      ca: this.#cluster.ca,
    });
    const name = made.metadata?.name ?? "";
    const probe = {
      ...made.webhooks?.[0],
      name: "probe.architecture.berth.dev",
      failurePolicy: "Fail",
      namespaceSelector: {},
      matchConditions: [{ name: "probe", expression: 'object.metadata.name == "probe"' }],
    };
    const webhooks = [...(made.webhooks ?? []).map((it) => Object.assign(it, { failurePolicy })), probe];
    await this.client.create(mutatingWebhookConfigurations, { ...made, webhooks } as typeof made);
    const isProbed = (): Promise<boolean> => this.isAsked(aPod("probe").in("kube-public").build());
    const asks = (expected: boolean): Promise<void> =>
      eventually(async () => {
        if ((await isProbed()) !== expected)
          throw new Error(`the API server ${expected ? "does not ask" : "asks"}`);
      });
    await asks(true);
    return {
      [Symbol.asyncDispose]: async () => {
        await this.client.delete(mutatingWebhookConfigurations, { name });
        await asks(false);
      },
    };
  }
}

/** The shared cluster, with namespaces of every kind. */
export async function askingServer(): Promise<AskingServer> {
  const cluster = await sharedTestCluster();
  for (const [name, labels] of Object.entries(labelled))
    await cluster.client.create(namespaces, { metadata: { name, labels } });
  return new AskingServer(cluster);
}

export function daemonSet(tolerations: readonly Toleration[]): object {
  const labels = { app: "ds" };
  const spec: PodSpec = { containers: [{ name: "main", image: "example.com/a:1" }], tolerations };
  return {
    metadata: { name: "ds" },
    spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  };
}

/** @throws an error that is not a refusal because no webhook answered. */
export async function refused(request: Promise<unknown>): Promise<boolean> {
  try {
    await request;
    return false;
  } catch (error) {
    if (isApiError(error) && error.message.includes("failed calling webhook")) return true;
    throw error;
  }
}
