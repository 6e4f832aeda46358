/** `make generate`: writes the templates of the chart. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { generated } from "./chart/write.ts";
import { root } from "./run-tool.ts";

for (const [name, text] of generated()) writeFileSync(join(root, "charts/berth", name), text);
