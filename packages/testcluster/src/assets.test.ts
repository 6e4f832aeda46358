import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { BUNDLED_KUBERNETES, findPrograms, findRegistry, genericOf, MissingAssetsError } from "./assets.ts";
import { BuildFailedError, buildOnce } from "./build.ts";

/** Writes where `-o` says. */
const GO = 'while [ "$1" != -o ]; do shift; done\necho > "$2"\n/bin/chmod 755 "$2"\n';

/** Nothing but the programs of a folder, and a cache in it. */
async function place() {
  const folder = await mkdtemp(path.join(tmpdir(), "berth-assets-test-"));
  return {
    folder,
    env: { PATH: path.join(folder, "bin"), XDG_CACHE_HOME: folder },
    /** Makes an executable file. */
    program: async (name: string, script = ""): Promise<string> => {
      const file = path.join(folder, name);
      await mkdir(path.dirname(file), { recursive: true });
      await writeFile(file, `#!/bin/sh\n${script}`);
      await chmod(file, 0o755);
      return file;
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

describe("findPrograms", () => {
  it("says in one line what to install when there is nothing and no Go", async () => {
    await using empty = await place();
    const finding = findPrograms(["etcd"], empty);
    const error = await finding.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(MissingAssetsError);
    expect((error as Error).message).toMatch(/^[^\n]*install Go 1\.26[^\n]*BERTH_CLUSTER_ASSETS[^\n]*$/);
  });

  it("knows no generic API server but that of the bundled binary", () => {
    const bundled = { command: "/cache/controlplane", args: ["kube-apiserver"] };
    expect(genericOf(bundled)).toEqual({ ...bundled, args: ["generic-apiserver"] });
    expect(() => genericOf({ command: "/own/kube-apiserver", args: [] })).toThrow(MissingAssetsError);
  });

  it("leaves no lock and no half-built file when Go is missing", async () => {
    await using empty = await place();
    await findPrograms(["etcd"], empty).catch(() => undefined);
    const left = await readdir(empty.folder, { recursive: true, withFileTypes: true });
    expect(left.filter((entry) => entry.isFile())).toEqual([]);
  });

  it("takes the folder it is given", async () => {
    await using assets = await place();
    const etcd = await assets.program("etcd");
    const found = await findPrograms(["etcd"], { env: { BERTH_CLUSTER_ASSETS: assets.folder } });
    expect(found.get("etcd")).toEqual({ command: etcd, args: [] });
  });

  it("names what a given folder lacks, rather than mixing in something else", async () => {
    await using assets = await place();
    await assets.program("etcd");
    const finding = findPrograms(["etcd", "kube-apiserver", "kwok"], {
      env: { BERTH_CLUSTER_ASSETS: assets.folder },
    });
    await expect(finding).rejects.toThrow("no kube-apiserver, no kwok");
  });

  it("passes over an envtest folder that lacks something", async () => {
    await using assets = await place();
    await assets.program("etcd");
    const env = { ...assets.env, KUBEBUILDER_ASSETS: assets.folder };
    expect((await findPrograms(["etcd"], { env })).size).toBe(1);
    await expect(findPrograms(["etcd", "kwok"], { env })).rejects.toThrow(MissingAssetsError);
  });

  it("builds into the cache with Go, and does not build again", async () => {
    await using machine = await place();
    await machine.program("bin/go", `echo run >> "$XDG_CACHE_HOME/runs"\n${GO}`);
    const first = await findPrograms(["etcd", "kwok"], machine);
    const second = await findPrograms(["etcd"], machine);
    expect(second.get("etcd")).toEqual(first.get("etcd"));
    expect(first.get("kwok")).toEqual({ command: first.get("etcd")?.command, args: ["kwok"] });
    expect(await readFile(path.join(machine.folder, "runs"), "utf8")).toBe("run\n");
  });

  it.each(BUNDLED_KUBERNETES)("builds Kubernetes %s from the module that pins it", async (version) => {
    await using machine = await place();
    await machine.program("bin/go", `echo "$*" > "$XDG_CACHE_HOME/arguments"\n${GO}`);
    const minor = version.replace(/\.\d+$/, "");
    await findPrograms(["etcd"], { env: { ...machine.env, BERTH_KUBERNETES: minor } });
    const given = await readFile(path.join(machine.folder, "arguments"), "utf8");
    expect(given).toContain(`version.gitVersion=v${version} `);
    const [, module = "go.mod"] = /-modfile=(\S+)/.exec(given) ?? [];
    const pins = await readFile(path.join(import.meta.dirname, "../controlplane", module), "utf8");
    expect(pins).toContain(`\tk8s.io/kubernetes v${version}\n`);
    expect(pins).toContain(`k8s.io/apiserver => k8s.io/apiserver v0.${version.slice(2)}\n`);
  });

  it("names the versions that it can build", async () => {
    await using machine = await place();
    const finding = findPrograms(["etcd"], { env: { ...machine.env, BERTH_KUBERNETES: "1.3" } });
    await expect(finding).rejects.toThrow(
      "BERTH_KUBERNETES=1.3 is not bundled: choose one of 1.35, 1.36, 1.37",
    );
  });
});

describe("findRegistry", () => {
  it("takes that of the folder it is given, and the bundled one when the folder has none", async () => {
    await using machine = await place();
    await machine.program("bin/go", GO);
    const { env } = machine;
    await using assets = await place();
    const given = { ...env, BERTH_CLUSTER_ASSETS: assets.folder };
    const bundled = await findRegistry({ env: given });
    expect(bundled.command.startsWith(path.join(machine.folder, "berth", "registry"))).toBe(true);
    expect(await findRegistry({ env })).toEqual(bundled);
    const own = await assets.program("registry");
    expect(await findRegistry({ env: given })).toEqual({ command: own, args: [] });
  });

  it("says in one line what to install when there is nothing and no Go", async () => {
    await using empty = await place();
    const finding = findRegistry(empty);
    const error = await finding.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(MissingAssetsError);
    expect((error as Error).message).toMatch(
      /^no image registry[^\n]*install Go 1\.26[^\n]*`registry`[^\n]*$/,
    );
  });
});

describe("buildOnce", () => {
  const buildIn = ({ folder, env }: Awaited<ReturnType<typeof place>>) =>
    ({ source: folder, binary: path.join(folder, "cache", "binary"), flags: [], env }) as const;

  it("builds once for callers that come at the same time", async () => {
    await using machine = await place();
    await machine.program("bin/go", `echo run >> runs\n/bin/sleep 0.3\n${GO}`);
    const options = buildIn(machine);
    await Promise.all([buildOnce(options), buildOnce(options), buildOnce(options)]);
    expect(await readFile(path.join(machine.folder, "runs"), "utf8")).toBe("run\n");
    expect(await readdir(path.dirname(options.binary))).toEqual(["binary"]);
  });

  it("takes over from a builder that died", async () => {
    await using machine = await place();
    await machine.program("bin/go", GO);
    const options = buildIn(machine);
    await mkdir(path.dirname(options.binary));
    await writeFile(`${options.binary}.lock`, String(2 ** 22)); // above the largest process id Linux gives
    await buildOnce(options);
    expect(await readdir(path.dirname(options.binary))).toEqual(["binary"]);
  });

  it("ends with what Go said when the build fails", async () => {
    await using machine = await place();
    await machine.program("bin/go", "echo 'main.go:3: no such thing' >&2\nexit 1\n");
    const building = buildOnce(buildIn(machine));
    await expect(building).rejects.toThrow(BuildFailedError);
    await expect(building).rejects.toThrow("main.go:3: no such thing");
  });
});
