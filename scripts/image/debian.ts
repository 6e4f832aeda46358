/** Packages of Debian, pinned by path and hash. Those of the image are in `debian-packages.json`. */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join, posix } from "node:path";
import { run } from "../run.ts";
import { ARCHITECTURES, type Architecture } from "./architectures.ts";
import { digestOf, hasHash } from "./hash.ts";

/** `all`: the same file for each architecture. */
type Build = Architecture | "all";

/** By name: the licence (SPDX) of what is published, and for each architecture what is pinned. */
export type DebianPins = Readonly<
  Record<string, { readonly license?: string } & { readonly [build in Build]?: DebianPin }>
>;

interface DebianPin {
  readonly version: string;
  /** On a mirror of Debian, such as `debian/pool/main/g/glibc/libc6_2.36-9_amd64.deb`. */
  readonly path: string;
  readonly sha256: string;
}

export interface DebianPackage extends DebianPin {
  readonly name: string;
  readonly license: string | undefined;
  readonly build: Build;
}

export const PINS: string = join(import.meta.dirname, "debian-packages.json");
/** Has the archives `debian` and `debian-security`. */
export const MIRROR = "https://deb.debian.org";
const RENEW = 'To pin what Debian has now, on a machine with Debian 12: make image ARGS="--renew-packages"';

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

/** The name of the file in the folder of downloads. */
export function fileOf({ path }: Pick<DebianPackage, "path">): string {
  return posix.basename(path);
}

/**
 * Has each file in the folder. The mirror is asked only for those that are not there.
 * @throws Error that names the address of a package that is gone, or has another hash.
 */
export async function fetchPackages(
  packages: readonly DebianPackage[],
  folder: string,
  mirror: string = MIRROR,
): Promise<void> {
  await Promise.all(packages.map((one) => fetchPackage(one, join(folder, fileOf(one)), mirror)));
}

async function fetchPackage({ path, sha256 }: DebianPackage, file: string, mirror: string): Promise<void> {
  if (await hasHash(file, "sha256", sha256)) return;
  const url = `${mirror}/${path}`;
  const bytes = await fetchBytes(url).catch((error: Error) => {
    const { message } = error.cause instanceof Error ? error.cause : error;
    throw new Error(`${url}: ${message}`, { cause: error });
  });
  if (bytes === undefined) throw new Error(`${url} is gone, because Debian removes old versions.\n${RENEW}`);
  if (digestOf(bytes) !== `sha256:${sha256}`) throw new Error(`${url} is not as it is pinned`);
  await writeFile(file, bytes);
}

/** `undefined`: it is not there. */
async function fetchBytes(url: string): Promise<Buffer | undefined> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(120_000) });
  if (answer.status === 404) return undefined;
  if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
  return Buffer.from(await answer.arrayBuffer());
}

/** Pins the versions that apt would install, for the packages and architectures that are pinned already. */
export async function renewPins(file: string, folder: string): Promise<void> {
  const pins = await readPins(file);
  const packages = debianPackages(pins, [...ARCHITECTURES, "all"]);
  const apt = await updatedApt(folder);
  const uris = await apt("download", "--print-uris", ...packages.map(specOf));
  const found = new Map(
    [
      ...uris.matchAll(
        /^'\S+?\/(debian(?:-security)?\/pool\/\S+)' ([^_]+)_([^_]+)_(\w+)\.deb \d+ SHA256:(\w+)$/gm,
      ),
    ].map(([, path = "", name, version = "", build, sha256 = ""]): [string, DebianPin] => [
      `${name}:${build}`,
      { version: version.replaceAll("%3a", ":"), path: decodeURIComponent(path), sha256 },
    ]),
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
    run("apt-get", ["-q", ...options, ...args], { cwd: state, env: { ...process.env, LC_ALL: "C" } });
  // A source that does not answer may be one that is not needed: the download says what is missing.
  await apt("update").catch((error: Error) => console.error(`image: apt-get update: ${error.message}`));
  return apt;
}
