import type { TestProjectInlineConfiguration, ViteUserConfig } from "vitest/config";
import { LongestFirst } from "./scripts/test-order.ts";

const conditions = ["berth-source", "node", "import", "module", "default"];
const source = { resolve: { conditions }, ssr: { resolve: { conditions, externalConditions: conditions } } };

/** The pure tests; `make mutate` runs them without the others. */
export const unit: TestProjectInlineConfiguration = {
  ...source,
  test: {
    name: "unit",
    include: ["packages/*/src/**/*.test.ts", "scripts/**/*.test.ts"],
    exclude: ["**/*.cluster.test.ts"],
    isolate: false,
    maxWorkers: "100%",
    testTimeout: 30_000,
  },
};

/** They put another list of capabilities in place of the real one, which files that share a process would keep. */
const mocking = ["test/capabilities.test.ts", "test/power-saver/*.test.ts"];

/**
 * Four projects: pure tests run side by side in milliseconds; tests against a real control plane (`*.cluster.test.ts`
 * and `test/`) run three files at a time, as they wait more than they compute; the architecture rules are also part of
 * `make check`; the last have a process for each file.
 */
const config: ViteUserConfig = {
  test: {
    pool: "forks",
    // `make test ARGS=--coverage` alone measures it.
    coverage: {
      reporter: ["text"],
      include: ["packages/*/src/**/*.ts"],
      exclude: ["**/*.test.ts", "**/testing/**", "**/generated/**"],
    },
    sequence: { sequencer: LongestFirst },
    projects: [
      unit,
      {
        ...source,
        test: {
          name: "cluster",
          include: ["packages/*/src/**/*.cluster.test.ts", "test/**/*.cluster.test.ts"],
          exclude: mocking,
          testTimeout: 180_000,
          hookTimeout: 900_000,
          maxWorkers: 3,
          // A worker keeps its control planes: each file finds them as new, see `restoreSharedTestClusters`.
          isolate: false,
          setupFiles: ["test/restore-clusters.ts"],
          sequence: { groupOrder: 1 },
        },
      },
      {
        ...source,
        test: {
          name: "architecture",
          isolate: false,
          include: ["test/**/*.test.ts"],
          exclude: ["**/*.cluster.test.ts", "**/*.compat.test.ts", ...mocking],
          maxWorkers: "100%",
        },
      },
      {
        ...source,
        test: {
          name: "mocking",
          maxWorkers: "100%",
          include: mocking,
          testTimeout: 60_000,
          setupFiles: ["test/restore-clusters.ts"],
        },
      },
    ],
  },
};

export default config;
