import { spawnSync } from "node:child_process";
import { expect, it } from "vitest";
import { uploadScript } from "./upload.ts";

const files = ["berth-0.2.0.tgz", "krew-berth.yaml", "SHA256SUMS"];
const image = "registry.example:5000/team/berth";

it("is a script that a shell understands, with every file, and a chart beside the image", () => {
  const script = uploadScript({ version: "0.2.0", image, files });
  expect(spawnSync("sh", ["-n"], { input: script }).status).toBe(0);
  expect(script).toContain(`\n  ${files.join(" ")}\n`);
  expect(script).toContain('image" registry.example:5000/team/berth:0.2.0\n');
  expect(script).toContain('chart" registry.example:5000/team/charts/berth:0.2.0\n');
});

it.each([
  ["0.2.0", "latest", false],
  ["0.2.0-rc.1", "next", true],
])("publishes %s as %s", (version, tag, isPreview) => {
  const script = uploadScript({ version, image, files });
  expect(script).toContain(` --tag ${tag} `);
  expect(script.includes(" --prerelease ")).toBe(isPreview);
});
