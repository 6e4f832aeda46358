/** `make chart`: packs the chart with the licence of Berth. The last line that it prints is the path of the file. */
import { copyFileSync, cpSync, mkdirSync, mkdtempDisposableSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CHART, helm } from "./chart/rendered.ts";
import { root } from "./run-tool.ts";

const target = join(root, "build/chart");
mkdirSync(target, { recursive: true });
using folder = mkdtempDisposableSync(join(tmpdir(), "berth-chart-"));
const copy = join(folder.path, "berth");
cpSync(CHART, copy, { recursive: true });
copyFileSync(join(root, "LICENSE"), join(copy, "LICENSE"));
copyFileSync(
  join(root, "packages/cli/dist/bin/THIRD-PARTY-NOTICES.txt"),
  join(copy, "THIRD-PARTY-NOTICES.txt"),
);
const said = helm(["package", copy, "--destination", target]);
console.log(said.trim().replace(/^.*: /s, ""));
