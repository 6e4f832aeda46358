import { startTestCluster, type TestCluster, type TestClusterOptions } from "./cluster.ts";
import { type FleetPlanes, startPlanes } from "./fleet-planes.ts";

/** Which planes there are; the rest as for `startTestCluster`. */
export interface TestFleetOptions
  extends FleetPlanes,
    Pick<TestClusterOptions, "audit" | "env" | "signal" | "onProgress"> {}

/** Clusters by name, owned by their caller. */
export interface TestFleet extends AsyncDisposable {
  /** @throws Error when there is none of this name. */
  plane(name: string): TestCluster;
}

/**
 * Starts a cluster for each plane of a fleet, side by side: the first is the hub, the others are cells. What holds for a
 * test cluster holds for each.
 *
 * @throws what `startTestCluster` throws, and an Error for a name that no Cell could have. Nothing is left behind then.
 */
export async function startTestFleet(options: TestFleetOptions): Promise<TestFleet> {
  const { planes: _, ...common } = options;
  await using owned = new AsyncDisposableStack();
  const clusters = await startPlanes(options, async (_, plane) =>
    owned.use(await startTestCluster({ ...common, ...plane })),
  );
  const running = owned.move();
  return {
    plane(name) {
      const found = clusters.get(name);
      if (found === undefined)
        throw new Error(`there is no plane "${name}", only ${[...clusters.keys()].join(", ")}`);
      return found;
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}
