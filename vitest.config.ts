import type { ViteUserConfig } from "vitest/config";

const conditions = ["berth-source", "node", "import", "module", "default"];
const source = { resolve: { conditions }, ssr: { resolve: { conditions, externalConditions: conditions } } };

/**
 * Three projects: pure tests run side by side in milliseconds; tests against a real control plane (`*.cluster.test.ts`
 * and `test/`) run two files at a time, as each brings processes of its own; the architecture rules are also part of
 * `make check`.
 */
const config: ViteUserConfig = {
  test: {
    pool: "forks",
    projects: [
      {
        ...source,
        test: {
          name: "unit",
          include: ["packages/*/src/**/*.test.ts", "scripts/**/*.test.ts"],
          exclude: ["**/*.cluster.test.ts"],
          isolate: false,
          testTimeout: 30_000,
        },
      },
      {
        ...source,
        test: {
          name: "cluster",
          include: ["packages/*/src/**/*.cluster.test.ts", "test/**/*.cluster.test.ts"],
          testTimeout: 180_000,
          hookTimeout: 900_000,
          maxWorkers: 2,
          // A worker keeps its control planes: each file finds them as new, see `restoreSharedTestClusters`.
          isolate: false,
          setupFiles: ["test/restore-clusters.ts"],
          sequence: { groupOrder: 1 },
        },
      },
      {
        ...source,
        test: { name: "architecture", include: ["test/**/*.test.ts"], exclude: ["**/*.cluster.test.ts"] },
      },
    ],
  },
};

export default config;
