/**
 * Fixture for tests of architecture placement on the whole product: nodes, pods and policies on a real API server, a
 * Berth in this process, and what users see of it. Images are in a registry of the test's own choice.
 */
import path from "node:path";
import { type BerthOptions, crds, type RunningBerth } from "@berth/cli";
import {
  customResourceDefinitions,
  events,
  isApiError,
  type KubeClient,
  type KubeObject,
  mutatingWebhookConfigurations,
  type Node,
  type Pod,
  type PodSpec,
  type Resource,
  secrets,
} from "@berth/kube";
import {
  ARCHITECTURE_GATE,
  ARCHITECTURES_ANNOTATION,
  type ArchitecturePolicy,
  type ArchitecturePolicyStatus,
  architecturePolicies,
  ORIGINAL_ARCHITECTURE_KEY,
} from "@berth/placement";
import { createJsonLogger } from "@berth/runtime";
import {
  aPod,
  type EventuallyOptions,
  eventually,
  findFreePort,
  type PodBuilder,
  sharedTestCluster,
  type TestCluster,
} from "@berth/testcluster";
import { listing } from "../packages/cli/src/testing/registries.ts";
import { createNamespace, Fixture, NAMESPACE, type StartOptions, taintsOf } from "./fixture.ts";

/** The drop-in for archaware-controller. */
export const DROP_IN: string = path.join(
  import.meta.dirname,
  "../examples/architecture/archaware-controller.yaml",
);
export const KEY: string = ORIGINAL_ARCHITECTURE_KEY;

/** The cluster of this process, with the CRDs and Berth's namespace. */
export async function sharedArchitectureCluster(): Promise<TestCluster> {
  const cluster = await sharedTestCluster();
  const { client } = cluster;
  for (const crd of crds()) await eventually(() => client.apply(customResourceDefinitions, crd));
  await eventually(() => client.list(architecturePolicies));
  await createNamespace(cluster, NAMESPACE);
  return cluster;
}

export interface ArchitectureStartOptions extends StartOptions {
  /** The API server asks it about new pods, and does this when it does not answer. Default: it is not asked. */
  readonly asked?: "Ignore" | "Fail";
}

/** A Berth, and all that it has logged. */
export interface StartedBerth {
  readonly berth: RunningBerth;
  readonly lines: readonly string[];
}

/**
 * @param name Of the namespace of its pods; begins the names of its nodes.
 * @param registries Of this machine. Its Berths list them, as users do.
 */
export async function createArchitectureFixture(
  cluster: TestCluster,
  name: string,
  registries: readonly { readonly host: string }[] = [],
): Promise<ArchitectureFixture> {
  await createNamespace(cluster, name);
  return new ArchitectureFixture(cluster, name, registries);
}

export class ArchitectureFixture extends Fixture {
  readonly #registries: readonly { readonly host: string }[];

  /** Use `createArchitectureFixture`. */
  constructor(cluster: TestCluster, name: string, registries: readonly { readonly host: string }[]) {
    super(cluster, name);
    this.#registries = registries;
  }

  async start({ asked, ...options }: ArchitectureStartOptions = {}): Promise<StartedBerth> {
    const lines: string[] = [];
    const log = createJsonLogger({ level: "debug", destination: { write: (line) => void lines.push(line) } });
    const admission = { spec: await admissionSpec(asked), namespace: NAMESPACE };
    const registries = await listing(...this.#registries);
    const berth = await this.run(options, { namespace: NAMESPACE, admission, log, registries, ...options });
    return { berth, lines };
  }

  policy(name: string, spec: object): Promise<ArchitecturePolicy> {
    return this.cluster.client.create(architecturePolicies, {
      apiVersion: "berth.dev/v1alpha1",
      kind: "ArchitecturePolicy",
      metadata: { name },
      spec,
    });
  }

  async status(policy: string): Promise<ArchitecturePolicyStatus> {
    return (await this.cluster.client.get(architecturePolicies, { name: policy })).status ?? {};
  }

  /** Resolves once the taints of the node with this key are these values. */
  async tainted(node: string, values: readonly string[], key: string = KEY): Promise<Node> {
    return eventually(async () => {
      const found = await this.readNode(node);
      const standing = taintsOf(found).filter((it) => it.startsWith(`${key}=`));
      const wanted = values.map((value) => `${key}=${value}:NoSchedule`);
      if (standing.join() !== wanted.join()) throw new Error(`${standing.join()}: ${JSON.stringify(found)}`);
      return found;
    });
  }

  /** In the namespace of the fixture unless it names another. */
  pod(name: string): PodBuilder {
    return aPod(name).in(this.name);
  }

  /** Resolves once the pod tolerates these values of the taint, each with a toleration of its own. */
  async tolerating(name: string, values: readonly string[], namespace: string = this.name): Promise<Pod> {
    return eventually(async () => {
      const found = await this.readPod(name, namespace);
      const given = tolerationsOf(found);
      if (JSON.stringify(given) !== JSON.stringify(tolerationsFor(values)))
        throw new Error(`${JSON.stringify(given)} on ${name}`);
      return found;
    });
  }

  /** Resolves once our gate is off the pod. */
  async letGo(name: string, options: EventuallyOptions = {}): Promise<Pod> {
    return eventually(async () => {
      const found = await this.readPod(name);
      if (isHeld(found)) throw new Error(`${name} is held`);
      return found;
    }, options);
  }

  /** Resolves once the API server asks Berth about pods of this fixture, with these labels. */
  async asking(labels: Readonly<Record<string, string>> = {}): Promise<void> {
    await eventually(async () => {
      const tried = this.pod("tried")
        .labelled(labels)
        .annotated({ [ARCHITECTURES_ANNOTATION]: "riscv64" });
      const { spec } = await this.create(tried, { dryRun: true });
      if (!JSON.stringify(spec).includes("riscv64")) throw new Error("Berth is not asked");
    });
  }

  /**
   * Resolves once everything that was done before has been seen and answered: a pod that needs no registry, made after
   * all else, tolerates what it may run on. For policies that taint; it is gone then.
   */
  async settled(): Promise<void> {
    const name = this.nextCanary();
    await this.create(this.pod(name).annotated({ [ARCHITECTURES_ANNOTATION]: "riscv64" }));
    await this.tolerating(name, ["riscv64"]);
    await this.deletePod(name);
  }

  /** Reasons of all Events about pods of this namespace; none while everything goes well. */
  async podEvents(namespace: string = this.name): Promise<readonly string[]> {
    const { items } = await this.cluster.client.list(events, { namespace });
    return items.filter(({ regarding }) => regarding?.kind === "Pod").map(({ reason = "" }) => reason);
  }

  /** A pull secret for a user of a registry. */
  async pullSecret(name: string, registry: string, user: string, password: string): Promise<void> {
    const auth = Buffer.from(`${user}:${password}`).toString("base64");
    const config = JSON.stringify({ auths: { [registry]: { auth } } });
    const { name: namespace } = this;
    await this.cluster.client.create(
      secrets,
      {
        metadata: { name, namespace },
        type: "kubernetes.io/dockerconfigjson",
        data: { ".dockerconfigjson": Buffer.from(config).toString("base64") },
      },
      { namespace },
    );
  }

  protected override async clear(): Promise<void> {
    const { client } = this.cluster;
    await client.deleteCollection(architecturePolicies, {});
    await client.deleteCollection(mutatingWebhookConfigurations, {});
    await super.clear();
    // The API server stops asking a moment later: what the next fixture makes must not meet this one's webhook.
    await eventually(async () => {
      const tried = this.pod("tried").annotated({ [ARCHITECTURES_ANNOTATION]: "riscv64" });
      const { spec } = await this.create(tried, { dryRun: true });
      if (JSON.stringify(spec).includes("riscv64")) throw new Error("a webhook is still asked");
    });
  }
}

type Admission = NonNullable<BerthOptions["admission"]>;

async function admissionSpec(asked: ArchitectureStartOptions["asked"]): Promise<Admission["spec"]> {
  if (asked === undefined) return { mode: "Off", bindAddress: "127.0.0.1:0", failurePolicy: "Ignore" };
  const port = await findFreePort();
  return {
    mode: "Webhook",
    bindAddress: `127.0.0.1:${port}`,
    url: `https://127.0.0.1:${port}`,
    failurePolicy: "Ignore",
    podFailurePolicy: asked,
  };
}

/** A watch that tells of each version of each object, from those that there are on. */
export interface Following extends AsyncDisposable {
  /** Resolves when all versions that there were before have been told, and ends it. */
  end(): Promise<void>;
}

/** Resolves when those that there are have been told. Fails when the watch does: it is for a server that stays. */
export async function followed<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  see: (object: T) => void,
): Promise<Following> {
  const stop = new AbortController();
  const watch = await client.watch(resource, { sendInitialEvents: true, signal: stop.signal });
  const started = Promise.withResolvers<void>();
  let seen = 0n;
  const running = (async () => {
    try {
      for await (const event of watch) {
        if (event.type === "BOOKMARK" && event.initialEventsEnd) started.resolve();
        if (event.type === "ADDED" || event.type === "MODIFIED") see(event.object);
        const version =
          event.type === "BOOKMARK" ? event.resourceVersion : event.object.metadata?.resourceVersion;
        seen = BigInt(version ?? "0");
      }
    } catch (error) {
      if (!stop.signal.aborted) throw error;
    }
  })();
  await Promise.race([started.promise, running]);
  const close = async (): Promise<void> => {
    stop.abort();
    await watch[Symbol.asyncDispose]();
    await running;
  };
  return {
    async end() {
      const versions: bigint[] = [];
      for await (const { items } of client.pages(resource))
        for (const { metadata } of items) versions.push(BigInt(metadata?.resourceVersion ?? "0"));
      const last = versions.reduce((most, one) => (one > most ? one : most), 0n);
      await eventually(() => {
        if (seen < last) throw new Error(`seen up to ${seen} and not ${last}`);
      });
      await close();
    },
    [Symbol.asyncDispose]: close,
  };
}

/** Those for the original key, or another, field by field as they are stored. */
export function tolerationsOf({ spec }: { readonly spec?: PodSpec }, key: string = KEY): readonly object[] {
  return (spec?.tolerations ?? []).filter((it) => it.key === key);
}

/** As the contract has them: in this order of fields, without an operator. */
export function tolerationsFor(values: readonly string[], key: string = KEY): readonly object[] {
  return values.map((value) => ({ key, value, effect: "NoSchedule" }));
}

export function isHeld({ spec }: Pod): boolean {
  return spec?.schedulingGates?.some(({ name }) => name === ARCHITECTURE_GATE) === true;
}

/** What each term of its required node affinity says about `kubernetes.io/arch`; none without any. */
export function architecturesOf({ spec }: Pod): readonly (readonly string[])[] {
  const required = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  return (required?.nodeSelectorTerms ?? []).map(({ matchExpressions = [] }) =>
    matchExpressions.flatMap(({ key, values = [] }) => (key === "kubernetes.io/arch" ? values : [])),
  );
}

/** What a refused request said. */
export async function refusalOf(made: Promise<unknown>): Promise<string> {
  const answer = await made.catch((error: unknown) => error);
  if (!isApiError(answer)) throw new Error(`not refused: ${JSON.stringify(answer)}`);
  return answer.message;
}
