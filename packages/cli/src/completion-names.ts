/** Names of objects of the cluster, for a shell that completes them. */
import {
  connect,
  daemonSets,
  type KubeClient,
  type KubeObject,
  namespaces,
  nodes,
  pods,
  type Resource,
} from "@berth/kube";
import type { Outside } from "./command-deps.ts";
import type { NamedKind, NameQuestion } from "./completion.ts";
import { type ConnectionOptions, chooseCluster } from "./connection.ts";
import { VERSION } from "./version.ts";

/** A user who presses a key waits no longer. Milliseconds. */
const LIMIT_MS = 2_000;
/** More names are no help. */
const MOST_NAMES = 1_000;

const RESOURCES: Readonly<Record<NamedKind, (ending: string) => Promise<readonly Resource[]>>> = {
  node: () => Promise.resolve([nodes]),
  namespace: () => Promise.resolve([namespaces]),
  pod: () => Promise.resolve([pods]),
  daemonset: () => Promise.resolve([daemonSets]),
  workload: async () => [(await import("@berth/fleet")).workloads],
  instance: async () => [(await import("@berth/fleet")).instances],
  async document(ending) {
    const { servedKinds } = await import("./kinds.ts");
    return servedKinds
      .filter(({ kind }) => kind.toLowerCase().endsWith(ending))
      .map(({ resource }) => resource);
  },
};

/**
 * Never rejects: without a cluster, or when it takes too long, there are no names. Of a namespaced kind, the names of
 * the namespace that was given, or `NAMESPACE/NAME` once a namespace is typed, and the namespaces before that.
 */
export async function namesFor(question: NameQuestion, outside: Outside): Promise<readonly string[]> {
  try {
    const { kind, typed, options } = question;
    const given: readonly [keyof ConnectionOptions, string | undefined][] = [
      ["kubeconfig", options.get("--kubeconfig")],
      ["context", options.get("--context")],
      ["as", options.get("--as")],
    ];
    const asked = Object.fromEntries(given.filter(([, value]) => value !== undefined));
    const choice = await chooseCluster(asked, outside);
    await using client = connect({
      ...choice.connect,
      userAgent: `berth/${VERSION}`,
      timeoutMs: LIMIT_MS,
    });
    const resources = await RESOURCES[kind](question.ending);
    const isNamespaced = resources.some((it) => it.namespaced);
    const [namespace = "", name] = isNamespaced ? typed.split("/", 2) : [];
    const all = async (of: readonly Resource[], within = "") =>
      (await Promise.all(of.map((it) => list(client, it, within)))).flat();
    if (!isNamespaced) return await all(resources);
    if (name !== undefined) return (await all(resources, namespace)).map((it) => `${namespace}/${it}`);
    const own = options.get("--namespace") ?? choice.namespace ?? "default";
    // They are given with their namespace.
    const here = kind === "daemonset" ? [] : await all(resources, own);
    return [...here, ...(await all([namespaces])).map((it) => `${it}/`)];
  } catch {
    return [];
  }
}

/** Empty where the user may not list them. */
async function list(client: KubeClient, resource: Resource, namespace = ""): Promise<readonly string[]> {
  const scope = namespace === "" ? {} : { namespace };
  const { items } = await client
    .list<KubeObject>(resource, { ...scope, limit: MOST_NAMES, metadataOnly: true })
    .catch(() => ({ items: [] as readonly KubeObject[] }));
  return items.map(({ metadata }) => metadata?.name ?? "").sort();
}
