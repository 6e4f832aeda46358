import { configMaps, namespaces, serviceAccounts, services } from "@berth/kube";
import {
  type ClusterSnapshot,
  startTestCluster,
  type TestCluster,
  type TestClusterOptions,
} from "./cluster.ts";
import { eventually } from "./eventually.ts";

/** What the tests of a process share. It always writes an audit log. */
export interface SharedTestClusterOptions extends Pick<TestClusterOptions, "with" | "flags"> {
  /** Done once, before any test sees the cluster: what it makes stays for all. The name is part of what is shared. */
  readonly prepare?: { readonly name: string; readonly run: (cluster: TestCluster) => Promise<void> };
}

/** A cluster, and what it had stored when it was new. */
interface SharedCluster {
  readonly cluster: TestCluster;
  readonly asNew: ClusterSnapshot;
}

/**
 * The cluster of this process: started by the first call with these options, handed to every later one, never stopped
 * by a test. It ends with the process, which for vitest is a worker: tests of one file always share it, and test files
 * do when vitest runs with `isolate: false`.
 *
 * Tests of one file keep apart by names of their own. `restoreSharedTestClusters` makes it new for the next file. Tests
 * do not stop its components.
 */
export async function sharedTestCluster(options: SharedTestClusterOptions = {}): Promise<TestCluster> {
  const clusters = clustersOfThisProcess();
  const key = JSON.stringify([[...(options.with ?? [])].sort(), options.flags ?? {}, options.prepare?.name]);
  const known = clusters.get(key);
  if (known !== undefined) return (await known).cluster;
  const starting = startShared(options);
  clusters.set(key, starting);
  // A failed start is not remembered: the next test tries again and reports its own reason.
  starting.catch(() => clusters.delete(key));
  return (await starting).cluster;
}

/**
 * Makes every shared cluster of this process what it was when it was new. For an `afterAll` in a setup file of vitest.
 *
 * @throws NotEventuallyError when a test has left something running that still makes objects.
 */
export async function restoreSharedTestClusters(): Promise<void> {
  const running = await Promise.allSettled(clustersOfThisProcess().values());
  const started = running.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  await Promise.all(started.map(({ cluster, asNew }) => cluster.restore(asNew)));
}

async function startShared({ prepare, ...options }: SharedTestClusterOptions): Promise<SharedCluster> {
  const cluster = await startTestCluster({ ...options, audit: true });
  await prepare?.run(cluster);
  // The API server and the controller manager make these in their own time: they belong to a new cluster.
  await eventually(() => cluster.client.get(services, { namespace: "default", name: "kubernetes" }));
  if (options.with?.includes("controller-manager")) await eventually(() => namespacesAreComplete(cluster));
  return { cluster, asNew: await cluster.snapshot() };
}

/** Throws while a namespace lacks what the controller manager makes in each of them: its default account, and a CA. */
export async function namespacesAreComplete({ client }: Pick<TestCluster, "client">): Promise<void> {
  for (const { metadata } of (await client.list(namespaces)).items) {
    const namespace = metadata?.name ?? "";
    await client.get(serviceAccounts, { namespace, name: "default" });
    await client.get(configMaps, { namespace, name: "kube-root-ca.crt" });
  }
}

/**
 * On `globalThis`, because vitest evaluates modules again for each test file while the process, and so the clusters it
 * owns, stays.
 */
const KEY: unique symbol = Symbol.for("berth.testcluster.shared");

function clustersOfThisProcess(): Map<string, Promise<SharedCluster>> {
  const holder = globalThis as { [KEY]?: Map<string, Promise<SharedCluster>> };
  holder[KEY] ??= new Map();
  return holder[KEY];
}
