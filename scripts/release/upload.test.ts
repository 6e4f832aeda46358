import { spawnSync } from "node:child_process";
import { expect, it } from "vitest";
import { uploadScript } from "./upload.ts";

const files = [
  "berth-0.2.0.tgz",
  "berth-kube-0.2.0.tgz",
  "berth-runtime-0.2.0.tgz",
  "krew-berth.yaml",
  "SHA256SUMS",
];

it("is a script that a shell understands, and publishes each library and every file", () => {
  const script = uploadScript({ version: "0.2.0", image: "registry.example:5000/team/berth", files });
  expect(spawnSync("sh", ["-n"], { input: script }).status).toBe(0);
  const published = [...script.matchAll(/^npm publish .*\.\/(.*)$/gm)].map(([, file]) => file);
  expect(published).toEqual(["berth-kube-0.2.0.tgz", "berth-runtime-0.2.0.tgz"]);
  expect(script).toContain(`\n  ${files.join(" ")}\n`);
  expect(script).toContain('image" registry.example:5000/team/berth:0.2.0\n');
  expect(script).toContain('chart" registry.example:5000/team/charts/berth:0.2.0\n');
  expect(script).not.toContain("--prerelease");
  expect(uploadScript({ version: "0.2.0-rc.1", image: "x/berth", files })).toContain(" --prerelease \\\n");
});
