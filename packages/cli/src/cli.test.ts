import { readFile } from "node:fs/promises";
import path from "node:path";
import { BUNDLED_KUBERNETES } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { exitCodeMeanings, exitCodes } from "./exit-codes.ts";
import { berthWith, cli } from "./testing/harness.ts";
import { renderReference } from "./testing/reference.ts";
import { VERSION } from "./version.ts";

const root = path.join(import.meta.dirname, "../../..");

describe("help", () => {
  it("is the reference documentation", async () => {
    await expect(renderReference()).toMatchFileSnapshot(path.join(root, "docs/reference/cli.md"));
  });

  it.each([["--help"], ["-h"], ["help"], ["run", "--help"], ["cluster", "start", "-help"]])(
    "berth %s goes to standard output and succeeds",
    async (...args) => {
      const { code, stdout, stderr } = await cli(args);
      expect([code, stderr]).toEqual([exitCodes.done, ""]);
      expect(stdout).toContain("Usage: berth");
    },
  );
});

describe("exit codes", () => {
  it("are each documented once", () => {
    expect(exitCodeMeanings.map(({ code }) => code)).toEqual(Object.values(exitCodes));
  });

  it.each([
    [["frobnicate"]],
    [["plan", "--no-such-option"]],
    [["plan", "-o", "xml", "--label-dir", "x"]],
    [["explain", "secret", "x"]],
    [["explain", "node"]],
    [["validate"]],
    [["cluster"]],
    [["gate"]],
    [["gate", "release", "node-1"]],
    [["gate", "release", "node-1", "--reason", " "]],
    [["gate", "release", "node-1", "--reason", "x".repeat(257)]],
    [["gate", "release", "node-1", "--reason", "two\nlines"]],
    [["completion", "tcsh"]],
    [["manifests"]],
    [["manifests", "--image", "x", "--replicas", "0"]],
    [["cluster", "start", "--dir", "x", "--with", "dashboard"]],
    [["run", "--label-dir", "x", "--allow-reserved", "example.com"]],
  ])("berth %j is wrong usage", async (args) => {
    const { code, stderr } = await cli(args);
    expect(code).toBe(exitCodes.usage);
    expect(stderr).not.toBe("");
  });

  it("tells that there is no cluster", async () => {
    const { code, stderr } = await berthWith({ "labels/a/b": "x\n" }, "plan --label-dir labels");
    expect(code).toBe(exitCodes.cluster);
    expect(stderr).toMatch(/^berth: no cluster to talk to: .+\n$/);
  });

  it("tells that a cluster does not answer, on one line", async () => {
    // Port 1 (tcpmux) is not listened on.
    const line = "-label-dir labels -master http://127.0.0.1:1";
    const { code, stderr } = await berthWith({ "labels/a/b": "x\n" }, line);
    expect(code).toBe(exitCodes.cluster);
    expect(stderr).toMatch(/^berth: .*127\.0\.0\.1:1.*\n$/);
  });

  it("ends without the default folder of the original form (contract L1)", async () => {
    const { code, stderr } = await berthWith({}, "-kubeconfig x");
    expect(code).toBe(exitCodes.failed);
    expect(stderr).toMatch(/^berth: there is no folder labels .+\n$/);
  });

  it("I-7 prints help without arguments, though the folder has rules", async () => {
    const { code, stdout, stderr } = await berthWith({ "labels/a/b": "x\n" }, []);
    expect([code, stderr]).toEqual([exitCodes.done, ""]);
    expect(stdout).toBe((await cli(["--help"])).stdout);
  });

  it("I-7 names the command that confirms a rule, as plan does not write", async () => {
    const { code, stderr } = await cli(["plan", "--confirm", "big"]);
    expect(code).toBe(exitCodes.usage);
    expect(stderr).toContain("berth confirm big");
    expect((await cli(["plan", "--help"])).stdout).not.toContain("--confirm");
  });

  it("I-7 runs by default in its image, and leaves its arguments to those of a user", async () => {
    const dockerfile = await readFile(path.join(root, "Dockerfile"), "utf8");
    expect(dockerfile).toMatch(
      /^ENTRYPOINT \["node", "--max-semi-space-size=4", "\/berth\/berth.js"\]\nCMD \["run"\]$/m,
    );
  });
});

describe("version", () => {
  it("is that of the package", async () => {
    const { version } = JSON.parse(await readFile(path.join(root, "packages/cli/package.json"), "utf8")) as {
      version: string;
    };
    expect(VERSION).toBe(version);
    const { stdout } = await cli(["version"]);
    expect(stdout).toMatch(`berth ${version} (revision unknown, Node.js ${process.versions.node})\n`);
    expect(stdout).toContain(`tested with Kubernetes ${BUNDLED_KUBERNETES.join(", ")}\n`);
    const readme = await readFile(path.join(root, "README.md"), "utf8");
    expect(BUNDLED_KUBERNETES.filter((one) => !readme.includes(one))).toEqual([]);
    const data = { version, revision: "unknown", testedKubernetes: BUNDLED_KUBERNETES };
    expect(JSON.parse((await cli(["version", "-o", "json"])).stdout)).toMatchObject(data);
  });
});

describe("one object", () => {
  const closed = "--master http://127.0.0.1:1";

  it.each([
    "explain node/n1",
    "explain node n1",
    "explain pod/web",
    "explain pod default/web",
    "restart workload/default/web",
    "scale workload/web --replicas 2",
  ])("is named as in kubectl: %s", async (line) => {
    const { code, stderr } = await cli([...line.split(" "), ...closed.split(" ")]);
    expect([code, stderr]).toEqual([exitCodes.cluster, expect.stringContaining("could not be reached")]);
  });

  it.each([
    ["explain", /missing required argument 'kind'/],
    ["explain node", /missing required argument 'name'/],
    ["restart workload", /missing required argument 'name'/],
    ["scale workload --replicas 2", /missing required argument 'name'/],
    ["explain cat/n1", /Allowed choices are node, pod, workload, instance/],
    ["explain node n1 --as-group dev", /--as-group needs --as/],
    ["explain node n1 --as a\u0000", /no HTTP header can hold/],
  ])("is asked for: %s", async (line, said) => {
    const { code, stderr } = await cli([...line.split(" "), ...closed.split(" ")]);
    expect([code, stderr]).toEqual([exitCodes.usage, expect.stringMatching(said)]);
  });
});
