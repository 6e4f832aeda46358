/** `make generate`: writes the addresses of runbooks, what is generated of the chart, and the bases of kustomize. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { kustomizations } from "./chart/kustomize.ts";
import { generated } from "./chart/write.ts";
import { repository } from "./revision.ts";
import { root } from "./run-tool.ts";

for (const file of ["monitoring/rules.yaml", "test/compat/rules.test.yaml"].map((it) => join(root, it))) {
  const text = readFileSync(file, "utf8");
  writeFileSync(file, text.replaceAll(/(?<=runbook_url: ).+(?=\/blob\/)/g, repository()));
}

for (const [folder, files] of [
  ["charts/berth", generated()],
  ["kustomize", await kustomizations()],
] as const)
  for (const [name, text] of files) {
    const file = join(root, folder, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
