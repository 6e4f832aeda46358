/**
 * `make bench`: measures Berth beside the raw limit of the API server, in one run on one machine, and prints ratios.
 * Exits 0 once measured and names missed budgets; `--assert` makes a missed budget fail.
 */
import { parseArgs } from "node:util";
import { benchLabels } from "./labels.ts";
import { report } from "./report.ts";
import { benchCommandStart } from "./start.ts";

const { values } = parseArgs({
  options: {
    assert: { type: "boolean", default: false },
    nodes: { type: "string", default: "5000" },
    pairs: { type: "string", default: "5" },
    rest: { type: "string", default: "30" },
  },
});

const started = performance.now();
const onProgress = (text: string): void =>
  console.log(`bench: ${((performance.now() - started) / 1000).toFixed(0)} s: ${text}`);
const figures = [
  ...benchCommandStart(),
  ...(await benchLabels({
    nodes: Number(values.nodes),
    pairs: Number(values.pairs),
    restSeconds: Number(values.rest),
    onProgress,
  })),
];
const missed = report(figures);
if (values.assert && missed.length > 0) process.exitCode = 1;
