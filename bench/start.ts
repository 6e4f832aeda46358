import { execFileSync } from "node:child_process";
import { join } from "node:path";
import type { Figure } from "./report.ts";
import { median } from "./report.ts";

const root = join(import.meta.dirname, "..");
const RUNS = 9;

/** How long a person waits for `berth --help`, as a user starts it. */
export function benchCommandStart(): readonly Figure[] {
  const times = Array.from({ length: RUNS }, () => {
    const startedAt = performance.now();
    execFileSync(join(root, "bin/berth"), ["--help"], { stdio: "ignore" });
    return performance.now() - startedAt;
  });
  const bare = Array.from({ length: RUNS }, () => {
    const startedAt = performance.now();
    execFileSync(process.execPath, ["-e", "0"], { stdio: "ignore" });
    return performance.now() - startedAt;
  });
  const detail = `bare Node ${median(bare).toFixed(0)} ms; median of ${RUNS}`;
  return [{ what: "berth --help", value: median(times), unit: "ms", budget: 150, detail }];
}
