/**
 * Finds the programs of the control plane, and that of the image registry. In this order:
 * 1. the folder in `BERTH_CLUSTER_ASSETS`, laid out as envtest lays it out (`kube-apiserver`, `etcd`, …), which must
 *    then hold every program asked for;
 * 2. the folder in `KUBEBUILDER_ASSETS`, if it holds every program asked for;
 * 3. the one binary that holds all of them, kept in the user's cache folder;
 * 4. the same binary, built with Go into that cache (minutes, once for each version of Kubernetes).
 * The registry is a binary of its own: a test that runs no images need not build it.
 */
import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { access, readFile } from "node:fs/promises";
import { homedir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { type BuildProgress, buildOnce, MissingGoError } from "./build.ts";

/** The programs a test cluster is made of, by the names that Kubernetes releases give them. */
export type ComponentName = "etcd" | "kube-apiserver" | "kube-controller-manager" | "kube-scheduler" | "kwok";

/** How a component is run: `command`, then `args`, then the component's own flags. */
export interface Program {
  readonly command: string;
  readonly args: readonly string[];
}

/** Where each program is. */
export type Programs = ReadonlyMap<ComponentName, Program>;

/** Where to look, and who is told while the control plane is built. */
export interface FindProgramsOptions {
  /**
   * Where to read `BERTH_CLUSTER_ASSETS`, `KUBEBUILDER_ASSETS`, `BERTH_KUBERNETES` and `XDG_CACHE_HOME`, and what Go
   * runs with.
   */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Told about once a second while the binary is being built, never otherwise. */
  readonly onProgress?: (progress: BuildProgress) => void;
  readonly signal?: AbortSignal;
}

/** There is no control plane to run. The message is one line that says what to install or set. */
export class MissingAssetsError extends Error {
  override readonly name = "MissingAssetsError";
}

/**
 * The versions of Kubernetes that the bundled control plane can have. The environment variable `BERTH_KUBERNETES`
 * chooses by the minor version, such as `1.35`; the default is 1.36.
 */
export const BUNDLED_KUBERNETES: readonly string[] = ["1.35.4", "1.36.3", "1.37.2"];
const DEFAULT_MINOR = "1.36";

/** A Go module of this package, of which one binary is built. */
interface BundledModule {
  /** Its folder in this package, its folder in the cache, and the binary. */
  readonly name: string;
  readonly flags: readonly string[];
  /** The files that decide what comes out. */
  readonly files: readonly string[];
  /** What to do when there is no Go to build it with; one line. */
  readonly withoutGo: string;
}

/** @throws MissingAssetsError for a version that is not bundled. */
function controlPlane(minor: string): BundledModule {
  const version = BUNDLED_KUBERNETES.find((it) => it.startsWith(`${minor}.`));
  if (version === undefined) {
    const known = BUNDLED_KUBERNETES.map((it) => it.replace(/\.\d+$/, "")).join(", ");
    throw new MissingAssetsError(`BERTH_KUBERNETES=${minor} is not bundled: choose one of ${known}`);
  }
  const pins = minor === DEFAULT_MINOR ? "go" : `kubernetes-${minor}`;
  // Without the version flags kubectl refuses the server's version string. `-s -w` leave out debug tables.
  const ldflags = [
    "-s -w",
    `-X k8s.io/component-base/version.gitVersion=v${version}`,
    "-X k8s.io/component-base/version.gitMajor=1",
    `-X k8s.io/component-base/version.gitMinor=${minor.split(".")[1]}`,
  ].join(" ");
  return {
    name: "controlplane",
    flags: [...(minor === DEFAULT_MINOR ? [] : [`-modfile=${pins}.mod`]), "-trimpath", "-ldflags", ldflags],
    files: [`${pins}.mod`, `${pins}.sum`, "main.go"],
    withoutGo:
      "no Kubernetes control plane to run: install Go 1.26 or newer (https://go.dev/dl) and it is built once, " +
      "or set BERTH_CLUSTER_ASSETS to a folder with kube-apiserver and etcd (as `setup-envtest use` makes it)",
  };
}

const REGISTRY: BundledModule = {
  name: "registry",
  flags: ["-trimpath", "-ldflags", "-s -w"],
  files: ["go.mod", "go.sum", "main.go"],
  withoutGo:
    "no image registry to run: install Go 1.26 or newer (https://go.dev/dl) and it is built once, " +
    "or set BERTH_CLUSTER_ASSETS to a folder that also has `registry` (github.com/distribution/distribution v3)",
};

/**
 * Kubernetes' generic API server, which the bundled binary has beside kube-apiserver.
 *
 * @throws MissingAssetsError for the kube-apiserver of a folder.
 */
export function genericOf({ command, args }: Program): Program {
  if (args.length > 0) return { command, args: ["generic-apiserver"] };
  throw new MissingAssetsError(
    `${command} is no generic API server: unset BERTH_CLUSTER_ASSETS and KUBEBUILDER_ASSETS to use the bundled control plane`,
  );
}

/** @throws MissingAssetsError when there is neither a folder, nor a cached binary, nor a Go to build it with. */
export async function findPrograms(
  names: readonly ComponentName[],
  options: FindProgramsOptions,
): Promise<Programs> {
  const { env } = options;
  const own = env["BERTH_CLUSTER_ASSETS"];
  if (own) {
    const missing = await missingFrom(own, names);
    if (missing.length > 0) {
      throw new MissingAssetsError(
        `BERTH_CLUSTER_ASSETS=${own} has no ${missing.join(", no ")}: add what is missing, or unset it to use the bundled control plane`,
      );
    }
    return programsIn(own, names);
  }
  const envtest = env["KUBEBUILDER_ASSETS"];
  if (envtest && (await missingFrom(envtest, names)).length === 0) return programsIn(envtest, names);
  const binary = await bundledBinary(controlPlane(env["BERTH_KUBERNETES"] || DEFAULT_MINOR), options);
  return new Map(names.map((name) => [name, { command: binary, args: [name] }]));
}

/**
 * The registry server: that of `BERTH_CLUSTER_ASSETS` when the folder has one (a folder of envtest has none), else the
 * bundled one, built first when the cache has none. Its first argument is `serve`.
 *
 * @throws MissingAssetsError when there is neither, nor a Go to build it with.
 */
export async function findRegistry(options: FindProgramsOptions): Promise<Program> {
  const own = options.env["BERTH_CLUSTER_ASSETS"];
  const given = own ? path.join(own, "registry") : "";
  if (given !== "" && (await isExecutable(given))) return { command: given, args: [] };
  return { command: await bundledBinary(REGISTRY, options), args: [] };
}

/** A bundled binary, built first when the cache has none for these sources and this machine. */
async function bundledBinary(module: BundledModule, options: FindProgramsOptions): Promise<string> {
  const source = fileURLToPath(new URL(`../${module.name}`, import.meta.url));
  const folder = path.join(cacheFolder(options.env), module.name, await cacheKey(source, module));
  const binary = path.join(folder, module.name);
  if (await isExecutable(binary)) return binary;
  try {
    await buildOnce({ source, binary, flags: module.flags, ...options });
  } catch (error) {
    if (!(error instanceof MissingGoError)) throw error;
    throw new MissingAssetsError(module.withoutGo);
  }
  return binary;
}

/** `XDG_CACHE_HOME` counts only when it is absolute (XDG Base Directory Specification 0.8). */
function cacheFolder(env: FindProgramsOptions["env"]): string {
  const xdg = env["XDG_CACHE_HOME"];
  const base = xdg && path.isAbsolute(xdg) ? xdg : path.join(env["HOME"] || homedir(), ".cache");
  return path.join(base, "berth");
}

/** Everything that decides which bytes come out of the build, except the version of Go. */
async function cacheKey(source: string, { files, flags }: BundledModule): Promise<string> {
  const hash = createHash("sha256");
  for (const file of files) {
    const content = await readFile(path.join(source, file));
    hash.update(`${file} ${content.length}\n`).update(content);
  }
  hash.update(JSON.stringify(flags)).update(`${process.platform} ${process.arch}`);
  return hash.digest("hex").slice(0, 16);
}

function programsIn(folder: string, names: readonly ComponentName[]): Programs {
  return new Map(names.map((name) => [name, { command: path.join(folder, name), args: [] }]));
}

async function missingFrom(folder: string, names: readonly ComponentName[]): Promise<readonly string[]> {
  const found = await Promise.all(names.map((name) => isExecutable(path.join(folder, name))));
  return names.filter((_, index) => !found[index]);
}

async function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}
