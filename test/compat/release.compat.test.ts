/** A release from a clone of the last commit, published to a registry of this machine, and installed from there. */
import { execFile } from "node:child_process";
import { hash } from "node:crypto";
import { appendFile, chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { startRegistry, type TestRegistry } from "@berth/testcluster";
import { afterAll, beforeAll, expect, it } from "vitest";
import { helmFolder } from "../../scripts/chart/helm.ts";
import { repository } from "../../scripts/revision.ts";

const root = join(import.meta.dirname, "../..");
const execute = promisify(execFile);
const VERSION = "9.8.7-rc.1";

let scratch: string;
let clone: string;
let folder: string;
let registry: TestRegistry;

async function run(program: string, args: readonly string[], PATH = ""): Promise<string> {
  const env = {
    ...process.env,
    PATH: `${PATH}${delimiter}${process.env["PATH"]}`,
    KREW_ROOT: join(scratch, "krew"),
  };
  const { stdout } = await execute(program, args, { cwd: clone, env, maxBuffer: 2 ** 26 });
  return stdout.trimEnd();
}

/** @returns what it says when it refuses. */
const refusal = (version: string): Promise<string> =>
  release(version).then(
    () => "",
    ({ stderr }: { readonly stderr: string }) => stderr,
  );

const release = (version: string): Promise<string> =>
  run("make", ["release", `VERSION=${version}`, `ARGS=--image ${registry.host}/team/berth`]);

beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "berth-compat-release-"));
  registry = await startRegistry();
  await execute("git", ["clone", "--quiet", "--bare", root, join(scratch, "origin")]);
  clone = join(scratch, "clone");
  await execute("git", ["clone", "--quiet", join(scratch, "origin"), clone]);
  for (const [key, value] of [
    ["user.name", "maintainer"],
    ["user.email", "maintainer@forge.test"],
  ])
    await run("git", ["config", key ?? "", value ?? ""]);
  for (const modules of ["node_modules", "tools/helm/node_modules"]) {
    await run("cp", ["--archive", "--link", join(root, modules), join(clone, modules)]);
    await run("touch", [join(clone, modules, ".package-lock.json")]);
  }
  // What is there from another build of the image is not fetched again.
  await mkdir(join(clone, ".cache"));
  await run("sh", ["-c", 'cp --archive --link "$0" .cache/ || true', join(root, ".cache/image")]);
  await release(VERSION);
  folder = join(clone, "build", `release-${VERSION}`);
});

afterAll(async () => {
  await registry[Symbol.asyncDispose]();
  await rm(scratch, { recursive: true, force: true });
});

it("has everything that is published, with right checksums", async () => {
  const names = (await readdir(folder)).sort();
  expect(names.map((name) => name.replace(VERSION, "V"))).toMatchInlineSnapshot(`
    [
      "SHA256SUMS",
      "_berth",
      "berth-V.tgz",
      "berth-chart-V.oci.tar",
      "berth-crds-fleet.yaml",
      "berth-crds.yaml",
      "berth-fleet-cell.yaml",
      "berth-fleet-single.yaml",
      "berth-host-V.tgz",
      "berth-image-V-provenance.json",
      "berth-image-V-sbom-amd64.spdx.json",
      "berth-image-V-sbom-arm64.spdx.json",
      "berth-image-V.oci.tar",
      "berth-kube-V.tgz",
      "berth-kustomize-V.tar.gz",
      "berth-libraries-V-sbom.spdx.json",
      "berth-registry-V.tgz",
      "berth-runtime-V.tgz",
      "berth-testcluster-V.tgz",
      "berth.bash",
      "berth.fish",
      "berth.yaml",
      "index.yaml",
      "krew-berth.yaml",
      "kubectl-berth-V-any.tar.gz",
      "kubectl-berth-V-linux-amd64.tar.gz",
      "kubectl-berth-V-linux-arm64.tar.gz",
      "kubectl_complete-berth",
      "notes.md",
      "upload.sh",
    ]
  `);
  for (const line of (await readFile(join(folder, "SHA256SUMS"), "utf8")).trimEnd().split("\n")) {
    const [sum, name = ""] = line.split("  ");
    expect(hash("sha256", await readFile(join(folder, name)))).toBe(sum);
  }
});

it("has the bases of kustomize with its image", async () => {
  await run("tar", ["-xzf", join(folder, `berth-kustomize-${VERSION}.tar.gz`), "-C", scratch]);
  const printed = await run(join(helmFolder(), "kubectl"), ["kustomize", join(scratch, "kustomize/base")]);
  expect(printed).toContain(`image: ${registry.host}/team/berth:${VERSION}@sha256:`);
});

it("is a commit with the version in it, and a tag of this commit", async () => {
  expect(await run("git", ["status", "--porcelain"])).toBe("");
  expect(await run("git", ["rev-parse", `v${VERSION}^{commit}`])).toBe(
    await run("git", ["rev-parse", "HEAD"]),
  );
  expect(await run("bin/berth", ["version"])).toContain(
    `berth ${VERSION} (revision ${await run("git", ["rev-parse", "HEAD"])},`,
  );
});

it("is refused from a tree with changes, under a version that exists, and under what is no version", async () => {
  expect(await refusal(VERSION)).toContain(`release: ${VERSION} exists: git has the tag v${VERSION}`);
  expect(await refusal("v1")).toContain('release: "v1" is no version');
  await appendFile(join(clone, "README.md"), "changed\n");
  expect(await refusal("9.9.9")).toMatch(/release: commit or remove these first:\n *M README.md/);
  await run("git", ["checkout", "--quiet", "README.md"]);
  expect(await run("git", ["log", "-1", "--format=%s"])).toBe(`Release ${VERSION}`);
});

it("is installed by Krew", async () => {
  const krew = ["-C", join(root, "scripts/release"), "tool", "krew", "install"];
  const archive = join(
    folder,
    `kubectl-berth-${VERSION}-linux-${process.arch === "x64" ? "amd64" : "arm64"}.tar.gz`,
  );
  await run("go", [...krew, `--manifest=${join(folder, "krew-berth.yaml")}`, `--archive=${archive}`]);
  const printed = await run(
    "kubectl",
    ["berth", "version"],
    [join(scratch, "krew/bin"), helmFolder()].join(delimiter),
  );
  expect(printed).toContain(`berth ${VERSION} (revision `);
});

it("is published by its script: image, chart, libraries, tag and files", async () => {
  // npm and the forge are not of this machine: these write down what they are asked.
  const programs = join(scratch, "programs");
  await mkdir(programs);
  for (const name of ["npm", "gh"]) {
    await writeFile(
      join(programs, name),
      `#!/bin/sh\necho "${name} $*" >>${join(scratch, "asked")}\n[ "$1" != view ]\n`,
    );
    await chmod(join(programs, name), 0o755);
  }
  await run(join(folder, "upload.sh"), [], programs);
  const asked = (await readFile(join(scratch, "asked"), "utf8")).trimEnd().split("\n");
  expect(asked.filter((line) => line.startsWith("npm publish"))).toHaveLength(5);
  expect(asked.at(-1)).toMatch(new RegExp(`^gh release create v${VERSION} .* --prerelease .*SHA256SUMS`));
  expect(await run("git", ["ls-remote", "origin", `refs/tags/v${VERSION}`])).not.toBe("");

  const helm = join(helmFolder(), "helm");
  const chart = [`oci://${registry.host}/team/charts/berth`, "--version", VERSION, "--plain-http"];
  const values = await run(helm, ["show", "values", ...chart]);
  const { manifests } = JSON.parse(await readFile(join(clone, "build/image/index.json"), "utf8")) as {
    readonly manifests: readonly { readonly digest: string }[];
  };
  expect(values).toContain(`repository: ${registry.host}/team/berth\n`);
  expect(values).toContain(`digest: "${manifests[0]?.digest}"\n`);
  expect(values).not.toContain("no public registry");
  await run("go", [
    "-C",
    join(root, "scripts/image"),
    "tool",
    "crane",
    "validate",
    "--remote",
    `${registry.host}/team/berth@${manifests[0]?.digest}`,
  ]);
  const url = `${repository()}/releases/download/v${VERSION}/berth-${VERSION}.tgz`;
  expect(await readFile(join(folder, "index.yaml"), "utf8")).toContain(url);
  expect(await readFile(join(folder, "berth.yaml"), "utf8")).toContain(
    `${registry.host}/team/berth:${VERSION}@${manifests[0]?.digest}`,
  );
});
