import { spawn } from "node:child_process";
import { once } from "node:events";
import { access, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, it } from "vitest";
import type { Program } from "./assets.ts";
import { eventually } from "./eventually.ts";
import { type Component, lastLines, startComponent } from "./process.ts";
import { identify } from "./process-identity.ts";

const SLEEP: Program = { command: "sleep", args: [] };
const SHELL: Program = { command: "/bin/sh", args: ["-c"] };

async function temporary() {
  const folder = await mkdtemp(path.join(tmpdir(), "berth-process-test-"));
  return {
    logFile: path.join(folder, "log"),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

function start(program: Program, flag: string, logFile: string): Promise<Component> {
  return startComponent({ name: "etcd", program, flags: [flag], logFile });
}

describe("startComponent", () => {
  it("runs the program itself, not a shell around it", async () => {
    await using files = await temporary();
    await using component = await start(SLEEP, "1000", files.logFile);
    await eventually(async () =>
      expect(await ps("-o", "args=", "-p", `${component.pid}`)).toEqual(["sleep 1000"]),
    );
  });

  it("ends it on dispose", async () => {
    await using files = await temporary();
    let pid = 0;
    {
      await using component = await start(SLEEP, "1000", files.logFile);
      pid = component.pid;
      expect(await identify(pid)).toBeDefined();
    }
    expect(await identify(pid)).toBeUndefined();
  });

  it("lets it end in order on SIGTERM and says how it ended", async () => {
    await using files = await temporary();
    await using component = await start(
      SHELL,
      "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done",
      files.logFile,
    );
    await eventually(async () => expect(await lastLines(files.logFile)).toBe("up"));
    await component.stop("SIGTERM");
    expect(await component.ended).toBe("exit 7");
    expect(component.running).toBe(false);
  });

  it("keeps both output streams in the log, and gives it no input to wait for", async () => {
    await using files = await temporary();
    await using component = await start(SHELL, "cat; echo one; echo two >&2", files.logFile);
    expect(await component.ended).toBe("exit 0");
    expect(await lastLines(files.logFile)).toBe("one\ntwo");
  });
});

/** Another process that starts a component and waits: `release` lets it go first. */
async function startInAnotherProcess(logFile: string, release: boolean) {
  const script = `
    import { startComponent } from ${JSON.stringify(new URL("./process.ts", import.meta.url).href)};
    const program = { command: "sleep", args: [] };
    const component = await startComponent({ name: "etcd", program, flags: ["1000"], logFile: ${JSON.stringify(logFile)} });
    if (${release}) await component.release();
    console.log(component.pid);
    setInterval(() => {}, 1000);
  `;
  const node = ["--conditions=berth-source", "--input-type=module", "--eval", script];
  const parent = spawn(process.execPath, node, { stdio: ["ignore", "pipe", "inherit"] });
  const [text] = (await once(parent.stdout, "data")) as [Buffer];
  return { parent: parent.pid ?? 0, child: Number(text.toString()) };
}

describe("when the starting process is gone", () => {
  it.each(["SIGKILL", "SIGTERM", "SIGINT"] as const)("ends the component after %s", async (signal) => {
    await using files = await temporary();
    const { parent, child } = await startInAnotherProcess(files.logFile, false);
    expect(await identify(child)).toBeDefined();
    process.kill(parent, signal);
    await eventually(async () => expect(await identify(child)).toBeUndefined());
  });

  it("leaves a released component running", async () => {
    await using files = await temporary();
    const { parent, child } = await startInAnotherProcess(files.logFile, true);
    process.kill(parent, "SIGKILL");
    await eventually(async () => expect(await identify(parent)).toBeUndefined());
    // The watcher is in the component's process group: once it is gone too, nothing can end the component any more.
    await eventually(async () => expect(await processesInGroup(child)).toEqual([child]));
    process.kill(child, "SIGKILL");
    await eventually(async () => expect(await identify(child)).toBeUndefined());
    await access(files.logFile);
  });
});

async function processesInGroup(group: number): Promise<readonly number[]> {
  const rows = await ps("-eo", "pid=,pgid=");
  return rows
    .map((row) => row.split(/\s+/).map(Number))
    .flatMap(([pid = 0, of]) => (of === group ? [pid] : []));
}

async function ps(...flags: readonly string[]): Promise<readonly string[]> {
  const child = spawn("ps", flags, { stdio: ["ignore", "pipe", "inherit"] });
  const rows = (await child.stdout.toArray()).join("").split("\n");
  return rows.map((row) => row.trim()).filter((row) => row !== "");
}
