import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { root } from "../run-tool.ts";
import { isVersion, VERSIONED, withVersion } from "./version.ts";

describe("isVersion", () => {
  it.each(["0.1.0", "1.20.300", "1.0.0-rc.1", "1.0.0-0.a-b.7"])("takes %s", (text) => {
    expect(isVersion(text)).toBe(true);
  });

  it.each([
    "",
    "1",
    "1.2",
    "v1.2.3",
    "01.2.3",
    "1.2.3.4",
    "1.2.3-",
    "1.2.3-01",
    "1.2.3+build",
    "1.2.3\n",
    "latest",
  ])("refuses %j", (text) => {
    expect(isVersion(text)).toBe(false);
  });
});

describe("withVersion", () => {
  const files = globSync(VERSIONED, { cwd: root });
  const read = (file: string): string => readFileSync(join(root, file), "utf8");
  const [, now = ""] = / VERSION = "(.+)"/.exec(read("packages/cli/src/version.ts")) ?? [];

  it.each(files)("leaves %s as it is for the version that it has", (file) => {
    expect(withVersion(file, read(file), now)).toBe(read(file));
  });

  it.each(files)("changes %s, and back", (file) => {
    const changed = withVersion(file, read(file), "9.8.7");
    expect(changed).toContain("9.8.7");
    expect(withVersion(file, changed, now)).toBe(read(file));
  });

  it("leaves no file out that names the version of a package of ours", () => {
    const manifests = files.filter((file) => /^packages\/[^/]+\/package\.json$/.test(file));
    expect(manifests.length).toBe(globSync("packages/*/package.json", { cwd: root }).length);
    for (const file of manifests)
      expect(withVersion(file, read(file), "9.8.7").match(/"@berth\/.+": "(?!9\.8\.7)/g)).toBeNull();
  });
});
