/** `make generate`: writes the templates of the chart. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { templates } from "./chart/write.ts";
import { root } from "./run-tool.ts";

for (const [name, text] of templates()) writeFileSync(join(root, "charts/berth/templates", name), text);
