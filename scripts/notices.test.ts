import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bundledPackages, noticesOf } from "./notices.ts";

it("names each package of which the bundle has a part, nested and scoped ones too", () => {
  const output = (...inputs: readonly string[]) => ({
    bytes: 1,
    imports: [],
    exports: [],
    inputs: Object.fromEntries(inputs.map((input) => [input, { bytesInOutput: 1 }])),
  });
  const outputs = {
    "a.js": output("packages/cli/src/main.ts", "node_modules/zod/v4/index.js", "node_modules/zod/v4/core.js"),
    "b.js": output("node_modules/@scope/name/index.js", "node_modules/a/node_modules/b/index.js"),
  };
  expect(bundledPackages({ outputs })).toEqual([
    "node_modules/@scope/name",
    "node_modules/a/node_modules/b",
    "node_modules/zod",
  ]);
});

describe("the notices", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-notices-"));
    for (const [name, files] of Object.entries({
      bare: {},
      full: { LICENSE: "text\n", "NOTICE.md": "and more" },
    })) {
      await mkdir(join(folder, name));
      const manifest = JSON.stringify({ name, version: "1.0.0", license: "MIT" });
      for (const [file, text] of Object.entries({ "package.json": manifest, ...files }))
        await writeFile(join(folder, name, file), text);
    }
  });
  afterAll(() => rm(folder, { recursive: true }));

  it("have the texts of a package under its name", async () => {
    expect(await noticesOf(["full"], folder)).toContain("full 1.0.0 (MIT)\n\ntext\n\nand more\n");
  });

  it("are refused for a package that has none", async () => {
    await expect(noticesOf(["full", "bare"], folder)).rejects.toThrow(
      "bare 1.0.0 is in the bundle and has no licence",
    );
  });
});
