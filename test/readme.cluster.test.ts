import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { usualPorts } from "./usual-ports.ts";

const root = join(import.meta.dirname, "..");
const run = promisify(execFile);

/** A cluster and forty commands take half a minute, and several beside much other work. Milliseconds. */
const LIMIT_MS = 480_000;

interface Step {
  readonly command: string;
  readonly output: string;
}

/** The `$ command` lines of all console blocks, `> ` going on with them, each with the lines printed after it. */
function stepsOf(markdown: string): readonly Step[] {
  const blocks = [...markdown.matchAll(/^```console\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? "");
  return blocks.flatMap((block) =>
    block
      .split(/^\$ /m)
      .slice(1)
      .map((text) => {
        const [first = "", ...lines] = text.split("\n");
        const output = lines.findIndex((line) => !line.startsWith("> "));
        const more = lines.slice(0, output).map((line) => line.slice(2));
        return { command: [first, ...more].join("\n"), output: normal(lines.slice(output).join("\n")) };
      }),
  );
}

/** Without what differs from run to run: times and ages, and the spaces after these. */
function normal(output: string): string {
  return output
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:]+Z/g, "<time>")
    .replaceAll(/\b(?:\d+m)?\d+[ms](?= |$) */gm, "<age> ")
    .replaceAll(/ +$/gm, "")
    .trim();
}

describe("README.md", () => {
  it("prints what it says when its commands are run", { timeout: LIMIT_MS }, async ({ skip }) => {
    for (const tool of ["kubectl", "curl"]) {
      await run("which", [tool]).catch(() => skip(`the README uses ${tool}, which is not installed here`));
    }
    // What it starts serves at these.
    await using _ports = await usualPorts();
    const steps = stepsOf(await readFile(join(root, "README.md"), "utf8"));
    expect(steps.length).toBeGreaterThan(10);
    const folder = await mkdtemp(join(tmpdir(), "berth-readme-"));
    const mark = "@@@step@@@";
    // One shell for all, as a reader has one; a failing command does not end it, as at a prompt. The probes are
    // waited for before they are asked, because a reader types slower than a script.
    const script = steps
      .map(({ command }) =>
        command.replace("curl -s localhost", "curl -sf --retry 20 --retry-all-errors localhost"),
      )
      .map((command) => `echo '${mark}'; ${command}`)
      .join("\n");
    const path = `${join(root, "bin")}:${process.env["PATH"] ?? ""}`;
    try {
      // Whatever becomes of the shell, nothing that it has started stays.
      const ending = "trap 'kill $(jobs -p) 2> /dev/null' EXIT";
      const { stdout } = await run("bash", ["-c", `${ending}\n${script}\n`], {
        cwd: folder,
        env: { ...process.env, PATH: path, KUBECONFIG: "" },
        timeout: LIMIT_MS / 2,
      });
      const printed = stdout.split(`${mark}\n`).slice(1).map(normal);
      expect(steps.map(({ command }, index) => ({ command, output: printed[index] }))).toEqual(steps);
    } finally {
      await run(join(root, "bin/berth"), ["cluster", "stop", "--dir", join(folder, "cluster")]).catch(
        () => undefined,
      );
      await rm(folder, { recursive: true, force: true });
    }
  });
});
