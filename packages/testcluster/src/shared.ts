import { startTestCluster, type TestCluster, type TestClusterOptions } from "./cluster.ts";

/**
 * The cluster of this process: started by the first call with these options, handed to every later one, never stopped
 * by a test. It ends with the process, which for vitest is a worker: tests of one file always share it, and test files
 * do when vitest runs with `isolate: false`.
 *
 * Tests keep apart by a namespace or a name prefix of their own, and do not stop its components.
 */
export function sharedTestCluster(options: TestClusterOptions = {}): Promise<TestCluster> {
  const clusters = clustersOfThisProcess();
  const key = JSON.stringify([[...(options.with ?? [])].sort(), options.audit ?? false, options.flags ?? {}]);
  const known = clusters.get(key);
  if (known !== undefined) return known;
  const starting = startTestCluster(options);
  clusters.set(key, starting);
  // A failed start is not remembered: the next test tries again and reports its own reason.
  starting.catch(() => clusters.delete(key));
  return starting;
}

/**
 * On `globalThis`, because vitest evaluates modules again for each test file while the process, and so the clusters it
 * owns, stays.
 */
const KEY: unique symbol = Symbol.for("berth.testcluster.shared");

function clustersOfThisProcess(): Map<string, Promise<TestCluster>> {
  const holder = globalThis as { [KEY]?: Map<string, Promise<TestCluster>> };
  holder[KEY] ??= new Map();
  return holder[KEY];
}
