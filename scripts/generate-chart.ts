/** `make generate`: writes what is generated of the chart, and the bases of kustomize. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { kustomizations } from "./chart/kustomize.ts";
import { generated } from "./chart/write.ts";
import { root } from "./run-tool.ts";

for (const [folder, files] of [
  ["charts/berth", generated()],
  ["kustomize", await kustomizations()],
] as const)
  for (const [name, text] of files) {
    const file = join(root, folder, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
