import type { ViteUserConfig } from "vitest/config";

const config: ViteUserConfig = {
  resolve: { conditions: ["berth-source"] },
  ssr: { resolve: { conditions: ["berth-source"] } },
  test: {
    include: ["packages/*/src/**/*.test.ts", "test/**/*.test.ts"],
    pool: "forks",
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
};

export default config;
