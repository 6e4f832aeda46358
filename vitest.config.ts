import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { conditions: ["berth-source"] },
  ssr: { resolve: { conditions: ["berth-source"] } },
  test: {
    include: ["packages/*/src/**/*.test.ts", "test/**/*.test.ts"],
    pool: "forks",
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
});
