/** The program in the README, run as it is printed. */
import { execFile } from "node:child_process";
import { mkdir, mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type FaultRegistry, startFaultRegistry } from "./testing/fault-registry.ts";

const folder = join(import.meta.dirname, "..");

async function program(): Promise<string> {
  const [, text = ""] = /^```ts\n(.*?)^```$/ms.exec(await readFile(join(folder, "README.md"), "utf8")) ?? [];
  return text;
}

interface Run {
  readonly exit: number;
  readonly output: readonly string[];
  readonly errors: string;
}

/** With a home directory that holds these credentials and nothing else. */
async function run({ host }: FaultRegistry, images: readonly string[], auths: object): Promise<Run> {
  await using home = await mkdtempDisposable(join(tmpdir(), "berth-registry-"));
  await mkdir(join(home.path, ".docker"));
  await writeFile(join(home.path, ".docker/config.json"), JSON.stringify({ auths }));
  const text = (await program()).replace("localhost:5000", host);
  // What `--eval` runs has no file name among its arguments.
  const args = [
    "--conditions=berth-source",
    "--input-type=module-typescript",
    "--eval",
    text,
    "platforms.ts",
    ...images,
  ];
  // Awaited here, for the home directory is gone when this returns.
  return await new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      args,
      { cwd: folder, env: { HOME: home.path } },
      (_, stdout, errors) =>
        resolve({ exit: child.exitCode ?? -1, output: stdout.trimEnd().split("\n"), errors }),
    );
  });
}

describe("the program in the README", () => {
  it("is short", async () => {
    const lines = (await program()).trimEnd().split("\n");
    expect(lines.length).toBeGreaterThan(20);
    expect(lines.length).toBeLessThanOrEqual(45);
  });

  it("prints what images run on, with the credentials of docker login, and what is wrong with others", async () => {
    await using registry = await startFaultRegistry({ auth: { scheme: "token", users: { ada: "smash" } } });
    registry.index("team/app", "1", ["linux/amd64", "linux/arm/v7"]);
    registry.image("team/tool", "latest", "linux/arm64");
    const auths = { [registry.host]: { auth: Buffer.from("ada:smash").toString("base64") } };
    const { exit, output, errors } = await run(
      registry,
      [`${registry.host}/team/app:1`, `${registry.host}/team/tool`],
      auths,
    );
    expect({ exit, output, errors }).toEqual({
      exit: 0,
      output: [
        `${registry.host}/team/app:1 linux/amd64 linux/arm/v7`,
        `${registry.host}/team/tool:latest linux/arm64`,
      ],
      errors: "",
    });

    const refused = await run(registry, [`${registry.host}/team/app:1`], {});
    expect(refused).toMatchObject({ exit: 1, output: [""] });
    expect(refused.errors).toContain(`${registry.host}/team/app:1`);
  });
});
