/** Packages of Debian, pinned by version and hash, as apt fetches them. Those of the image are in `debian-packages.json`. */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../run.ts";
import { ARCHITECTURES, type Architecture } from "./architectures.ts";
import { hasHash } from "./hash.ts";

/** `all`: the same file for each architecture. */
type Build = Architecture | "all";

/** By name: the licence (SPDX) of what is published, and for each architecture the version with its SHA-256. */
export type DebianPins = Readonly<
  Record<string, { readonly license?: string } & { readonly [build in Build]?: DebianPin }>
>;

interface DebianPin {
  readonly version: string;
  readonly sha256: string;
}

/** One file that apt fetches. */
export interface DebianPackage extends DebianPin {
  readonly name: string;
  readonly license: string | undefined;
  readonly build: Build;
}

export const PINS: string = join(import.meta.dirname, "debian-packages.json");
const RENEW = 'To pin what apt has now: make image ARGS="--renew-packages"';

export async function readPins(file: string = PINS): Promise<DebianPins> {
  return JSON.parse(await readFile(file, "utf8")) as DebianPins;
}

/** What is pinned, one architecture or all. */
export function debianPackages(pins: DebianPins, builds: readonly Build[]): readonly DebianPackage[] {
  return Object.entries(pins).flatMap(([name, { license, ...pinned }]) =>
    builds.flatMap((build) => {
      const pin = pinned[build];
      return pin === undefined ? [] : [{ name, license, build, ...pin }];
    }),
  );
}

/** Where apt puts it, in the folder of the downloads. */
export function fileOf({ name, version, build }: Pick<DebianPackage, "name" | "version" | "build">): string {
  return `${name}_${version.replaceAll(":", "%3a")}_${build}.deb`;
}

/**
 * Has each file in the folder. apt is asked only for those that are not there.
 * @throws Error that names what apt does not have, or has with another hash.
 */
export async function fetchPackages(packages: readonly DebianPackage[], folder: string): Promise<void> {
  const absent = async (): Promise<readonly DebianPackage[]> => {
    const there = await Promise.all(
      packages.map((one) => hasHash(join(folder, fileOf(one)), "sha256", one.sha256)),
    );
    return packages.filter((_, index) => there[index] !== true);
  };
  const missing = await absent();
  if (missing.length === 0) return;
  const apt = await updatedApt(folder);
  try {
    await apt("download", ...missing.map((one) => `${specOf(one)}=${one.version}`));
  } catch (error) {
    const named = missing.map((one) => `${specOf(one)}=${one.version}`).join(", ");
    throw new Error(`apt has not all of ${named}: ${String(error)}\n${RENEW}`, { cause: error });
  }
  const others = await absent();
  if (others.length > 0)
    throw new Error(`not as they are pinned: ${others.map(fileOf).join(", ")}\n${RENEW}`);
}

/** Pins the versions that apt would install, for the packages and architectures that are pinned already. */
export async function renewPins(file: string, folder: string): Promise<void> {
  const pins = await readPins(file);
  const packages = debianPackages(pins, [...ARCHITECTURES, "all"]);
  const apt = await updatedApt(folder);
  const uris = await apt("download", "--print-uris", ...packages.map(specOf));
  const found = new Map(
    [...uris.matchAll(/^'\S+' ([^_]+)_([^_]+)_(\w+)\.deb \d+ SHA256:(\w+)$/gm)].map(
      ([, name, version = "", build, sha256 = ""]): [string, DebianPin] => [
        `${name}:${build}`,
        { version: version.replaceAll("%3a", ":"), sha256 },
      ],
    ),
  );
  const renewed = structuredClone(pins) as Record<string, Record<string, unknown>>;
  for (const { name, build } of packages) {
    const pin = found.get(`${name}:${build}`);
    if (pin === undefined) throw new Error(`apt has no ${name} for ${build}:\n${uris}`);
    renewed[name] = { ...renewed[name], [build]: pin };
  }
  await writeFile(file, `${JSON.stringify(renewed, null, 2)}\n`);
}

function specOf({ name, build }: DebianPackage): string {
  return build === "all" ? name : `${name}:${build}`;
}

/** apt with the machine's sources and a state of its own: both architectures, and no change to the machine. */
async function updatedApt(folder: string): Promise<(...args: readonly string[]) => Promise<string>> {
  const state = join(folder, "apt");
  await mkdir(join(state, "lists/partial"), { recursive: true });
  await mkdir(join(state, "archives/partial"), { recursive: true });
  await writeFile(join(state, "status"), "");
  const options = [
    `Dir::State=${state}`,
    `Dir::State::status=${state}/status`,
    `Dir::Cache=${state}`,
    ...ARCHITECTURES.map((architecture) => `APT::Architectures::=${architecture}`),
    // The user that apt fetches as has no right to this folder.
    "APT::Sandbox::User=root",
    "Acquire::Languages=none",
  ].flatMap((option) => ["-o", option]);
  const apt = (...args: readonly string[]): Promise<string> =>
    run("apt-get", ["-q", ...options, ...args], { cwd: folder, env: { ...process.env, LC_ALL: "C" } });
  // A source that does not answer may be one that is not needed: the download says what is missing.
  await apt("update").catch((error: Error) => console.error(`image: apt-get update: ${error.message}`));
  return apt;
}
