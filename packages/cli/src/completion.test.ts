import { execFile, spawnSync } from "node:child_process";
import { chmod } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { complete, SCRIPTS } from "./completion.ts";
import { createSilentProgram } from "./program.ts";
import { cli, testFolder } from "./testing/harness.ts";

const execute = promisify(execFile);

/** The candidates for a line; the last word is the one being typed. */
async function candidates(...words: readonly string[]): Promise<readonly string[]> {
  const { code, stdout } = await cli(["__complete", ...words]);
  expect(code).toBe(0);
  const [files, ...lines] = stdout.trimEnd().split("\n");
  return files === ":files" ? ["<files>"] : lines.map((line) => line.split("\t")[0] ?? "");
}

describe("__complete", () => {
  it.each([
    ["pl", "plan"],
    ["cluster ", "start stop status save restore"],
    ["gate ", "list release tolerate"],
    ["gate release n1 --gate ", ""],
    ["run --leader", "--leader-elect"],
    ["run --leader-elect --lea", ""],
    ["run --config a --conf", "--config"],
    ["run --log-level ", "error warn info debug"],
    ["run --log-level=d", "--log-level=debug"],
    ["run --crd-grace ", ""],
    ["plan -o y", "yaml"],
    ["plan --label-dir ", "<files>"],
    ["plan --try=", "<files>"],
    ["plan --context ", ""],
    ["validate ", "<files>"],
    ["explain ", "node pod workload instance"],
    ["scale ", "workload"],
    ["plan -f ", "<files>"],
    ["explain node ", ""],
    ["completion ", "bash zsh fish kubectl"],
    ["frobnicate ", expect.stringMatching(/^run /)],
  ])("%j", async (line, expected) => {
    expect((await candidates(...line.split(" "))).join(" ")).toEqual(expected);
  });

  it("offers all commands and no hidden one", async () => {
    const all = await candidates("");
    expect(all).toEqual(expect.arrayContaining(["run", "plan", "explain", "validate", "clean", "demo"]));
    expect(all.filter((name) => name.startsWith("_"))).toEqual([]);
  });

  it("never takes what is typed for options of its own", async () => {
    expect(await candidates("--help", "")).toContain("run");
    expect(await candidates("plan", "--hel")).toEqual(["--help"]);
  });
});

describe("names of objects", () => {
  const root = createSilentProgram({ all: [], optional: [] });
  /** What is asked for, and what is offered. */
  async function asked(...words: readonly string[]): Promise<string> {
    let question = "";
    const text = await complete(root, words, ({ kind, ending, typed, options }) => {
      question = [kind === "document" ? ending : kind, typed, ...[...options].flat()].join(" ");
      return Promise.resolve(["a-1", "a-2", "b/x"]);
    });
    const offered = text
      .split("\n")
      .slice(1, -1)
      .map((line) => line.split("\t")[0]);
    return `${question}: ${offered.join(" ")}`;
  }
  it.each([
    ["explain node ", "node : a-1 a-2 b/x"],
    ["explain node a", "node a: a-1 a-2"],
    ["explain node/a", "node a: node/a-1 node/a-2"],
    ["explain pod b/", "pod b/: b/x"],
    ["explain pod b/x --on a", "node a: a-1 a-2"],
    ["explain node n --gate=a", "gate a: --gate=a-1 --gate=a-2"],
    ["explain pod -n web --context=dev a", "pod a --namespace web --context dev: a-1 a-2"],
    ["scale workload a", "workload a: a-1 a-2"],
    ["gate release a", "node a: a-1 a-2"],
    ["gate tolerate b/x b", "daemonset b: b/x"],
    ["plan n1 a", "node a: a-1 a-2"],
    ["plan -n a", "namespace a: a-1 a-2"],
    ["confirm a", "rule a: a-1 a-2"],
    ["explain node n --policy a", "policy a: a-1 a-2"],
    ["cell forget a", ": "],
  ])("%j", async (line, expected) => {
    expect(await asked(...line.split(" "))).toBe(expected);
  });
});

describe("scripts", () => {
  it("of bash completes in a real bash", async () => {
    await using folder = await testFolder({ "berth-completion": SCRIPTS.bash, "labels/x": "" });
    const answers =
      "case \"$*\" in *--label-dir*) echo :files;; *) printf ':none\\n--log-level=debug\\t\\nplan\\tShow it\\n';; esac";
    const program = await folder.write("berth", `#!/bin/sh\n${answers}\n`);
    await chmod(program, 0o755);
    const complete = async (line: string): Promise<string> => {
      const script = `source berth-completion; COMP_LINE='${line}' COMP_POINT=${line.length}; _berth; printf '%s\\n' "\${COMPREPLY[@]}"`;
      const environment = { PATH: `${folder.path}${path.delimiter}${process.env["PATH"] ?? ""}` };
      const { stdout } = await execute("bash", ["--norc", "-c", script], {
        cwd: folder.path,
        env: environment,
      });
      return stdout;
    };
    expect(await complete("berth p")).toBe("--log-level=debug\nplan\n");
    // bash itself breaks the word at "=": only what follows is replaced.
    expect(await complete("berth run --log-level=d")).toContain("debug\n");
    expect(await complete("berth plan --label-dir la")).toBe("labels\n");
  });

  it.each(["bash", "zsh", "fish", "kubectl"] as const)(
    "of %s asks berth and is printed by berth completion",
    async (shell) => {
      const { stdout } = await cli(["completion", shell]);
      expect(stdout).toBe(SCRIPTS[shell]);
      expect(stdout).toContain("__complete");
    },
  );

  for (const shell of ["zsh", "fish"] as const) {
    it(`of ${shell} is accepted by that shell`, async ({ skip }) => {
      skip(spawnSync(shell, ["--version"]).status !== 0, `${shell} is not installed here`);
      const script = SCRIPTS[shell];
      await using folder = await testFolder({ script });
      await expect(execute(shell, ["-n", path.join(folder.path, "script")])).resolves.toBeDefined();
    });
  }
});
