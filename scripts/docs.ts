/**
 * `make docs`: the reference of kube, registry, runtime and testcluster into `docs/api`, each package with its README in front.
 * Fails on a broken link, and on an exported symbol or method without a doc comment. `tools/typedoc` has its own
 * TypeScript, as version 7 has no API that typedoc could read sources with.
 */
import { execFile } from "node:child_process";
import { join, relative } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { root } from "./run-tool.ts";

const tool = join(root, "tools/typedoc");
const out = join(root, "docs/api");

const ACCEPTED: readonly RegExp[] = [
  // The wire types are generated without comments: their reference is that of Kubernetes.
  /defined in @berth\/kube\/src\/generated\/\S+ does not have any documentation/,
  // Said in full where it is used, and made by the package itself alone.
  /^\[warning\] (Environment|ControlPlane), .* is referenced by .* but not included in the documentation/,
];
/** typedoc's exit code when it has written everything and found something to warn about. */
const ONLY_WARNINGS = 4;

const { code, output } = await run([
  join(tool, "node_modules/typedoc/bin/typedoc"),
  "--options",
  join(tool, "typedoc.json"),
  "--out",
  out,
]);
const faults = output.filter((line) => /^\[(warning|error)\]/.test(line) && !/Found \d+ errors/.test(line));
const unaccepted = faults.filter((line) => !ACCEPTED.some((accepted) => accepted.test(line)));
for (const line of unaccepted) console.error(line);
if (unaccepted.length === 0 && code !== 0 && code !== ONLY_WARNINGS) console.error(output.join("\n"));
const ok = unaccepted.length === 0 && (code === 0 || code === ONLY_WARNINGS);
console.log(ok ? `docs: ${relative(root, out)}/index.html` : "docs: the reference is not complete");
process.exitCode = ok ? 0 : 1;

/** The lines that typedoc prints, without colours. */
function run(
  args: readonly string[],
): Promise<{ readonly code: number; readonly output: readonly string[] }> {
  return new Promise((resolve) => {
    const options = { cwd: tool, maxBuffer: 16 * 1024 * 1024 };
    const child = execFile(process.execPath, [...args], options, (error, stdout, stderr) => {
      const failure = child.exitCode === null ? `${error?.message}\n` : "";
      const output = stripVTControlCharacters(failure + stdout + stderr).split("\n");
      resolve({ code: child.exitCode ?? 1, output });
    });
  });
}
