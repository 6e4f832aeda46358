/**
 * `make compat` alone runs `*.compat.test.ts`: tests that need minutes, programs built for them, or another processor.
 * One file at a time, as each takes all processors.
 */
import { join } from "node:path";
import type { ViteUserConfig } from "vitest/config";

const conditions = ["berth-source", "node", "import", "module", "default"];

const config: ViteUserConfig = {
  root: join(import.meta.dirname, "../.."),
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: {
    include: ["test/compat/**/*.compat.test.ts"],
    pool: "forks",
    fileParallelism: false,
    testTimeout: 900_000,
    hookTimeout: 900_000,
  },
};

export default config;
