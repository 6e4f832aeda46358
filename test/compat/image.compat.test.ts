/** The image as a whole: made from clones of the last commit, pushed, and started from its layers. Needs root. */
import { execFile } from "node:child_process";
import { appendFile, copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { eventually, startRegistry, startTestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ARCHITECTURES, type Architecture } from "../../scripts/image/architectures.ts";
import { readPins } from "../../scripts/image/debian.ts";
import type { Descriptor } from "../../scripts/image/layout.ts";
import { push } from "../../scripts/image/push.ts";
import { startBerthProcess } from "../product.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const QEMU = "/usr/bin/qemu-aarch64-static";
const MB = 1_000_000;
const READY_MS = 1_500;
const EMULATED_MS = 60_000;
const SERVERS = ["--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0"];

interface Index {
  readonly manifests: readonly Descriptor[];
}

interface Manifest {
  readonly config: Descriptor;
  readonly layers: readonly Descriptor[];
}

interface Config {
  readonly architecture: Architecture;
  readonly config: { readonly Entrypoint: readonly string[]; readonly User: string };
}

type Image = Config & Pick<Manifest, "layers">;

/** As a container runtime does: the root read-only, /proc and /dev, another user, and the image's environment. */
const ENTER = `
  mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" &&
  mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" || exit 1
  user=$1; shift
  chroot=$(command -v chroot); PATH=/usr/bin; export PATH
  exec "$chroot" --userspec="$user" "$0" "$@"`;

let scratch: string;
/** The layout that this folder makes. */
let layout: string;

beforeAll(async () => {
  for (const [file, name] of [
    [QEMU, "qemu-user-static"],
    ["/usr/bin/faketime", "faketime"],
  ] as const)
    await readFile(file).catch(() => Promise.reject(new Error(`first: apt-get install ${name}`)));
  scratch = await mkdtemp(join(tmpdir(), "berth-compat-image-"));
  layout = await imageOf(root, ["--output", join(scratch, "layout")]);
});
afterAll(() => rm(scratch, { recursive: true, force: true }));

/** The last commit, built, with what was downloaded before, but without layers. */
async function clone(name: string): Promise<string> {
  const folder = join(scratch, name);
  await run("git", ["clone", "--quiet", "--shared", root, folder]);
  await run("cp", ["--archive", "--link", join(root, "node_modules"), folder]);
  await run("touch", [join(folder, "node_modules/.package-lock.json")]);
  await mkdir(join(folder, ".cache/image"), { recursive: true });
  await run("sh", [
    "-c",
    'cp "$0"/*.deb "$0"/*.tgz "$1" || true',
    join(root, ".cache/image"),
    join(folder, ".cache/image"),
  ]);
  await run("make", ["build"], { cwd: folder });
  return folder;
}

/** What `make image` runs once the program is built. */
async function imageOf(
  folder: string,
  args: readonly string[] = [],
  prefix: string = "exec",
): Promise<string> {
  const command = `${prefix} node_modules/.bin/node scripts/image.ts "$@"`;
  const { stdout } = await run("sh", ["-c", command, "sh", ...args], { cwd: folder });
  return stdout.trimEnd().split("\n").at(-1) ?? "";
}

const blobOf = (folder: string, { digest }: Pick<Descriptor, "digest">): string =>
  join(folder, "blobs", digest.replace(":", "/"));

async function json<T>(path: string): Promise<T> {
  return JSON.parse(await readFile(path, "utf8")) as T;
}

async function imagesOf(folder: string): Promise<readonly Image[]> {
  const { manifests: tops } = await json<Index>(join(folder, "index.json"));
  const indexes = await Promise.all(tops.map((top) => json<Index>(blobOf(folder, top))));
  const manifests = indexes.flatMap(({ manifests }) => manifests);
  return Promise.all(
    manifests.map(async (descriptor) => {
      const manifest = await json<Manifest>(blobOf(folder, descriptor));
      const { architecture, config } = await json<Config>(blobOf(folder, manifest.config));
      return { architecture, config, layers: manifest.layers };
    }),
  );
}

describe("made from two clones", () => {
  let folders: readonly string[];
  beforeAll(async () => {
    folders = [await clone("one"), await clone("another/place")];
  });

  it("has the same digests, also with another umask and a clock that is a year ahead", async () => {
    const [one = "", other = ""] = folders;
    const first = await imageOf(one);
    const second = await imageOf(other, [], "umask 077; exec faketime -f +365d");
    const statements = ARCHITECTURES.map((architecture) => `sbom-${architecture}.spdx.json`);
    for (const file of ["index.json", "provenance.json", ...statements])
      expect(await readFile(join(second, file), "utf8")).toBe(await readFile(join(first, file), "utf8"));
  });

  it("is small, and shares all layers but one with the image of other code", async () => {
    const [folder = ""] = folders;
    const before = await imagesOf(await imageOf(folder));
    await appendFile(join(folder, "packages/cli/dist/bin/berth.js"), "\n// other code\n");
    const after = await imagesOf(await imageOf(folder));
    for (const [index, { architecture, layers }] of before.entries()) {
      const size = layers.reduce((sum, layer) => sum + layer.size, 0);
      console.log(`${architecture}: ${layers.map((layer) => layer.size).join(" + ")} = ${size} bytes`);
      expect(size).toBeLessThanOrEqual(80 * MB);
      const shared = after[index]?.layers.map(({ digest }) => digest) ?? [];
      expect(layers.filter(({ digest }) => !shared.includes(digest))).toEqual([layers.at(-1)]);
    }
  });
});

it("is pushed as a whole, and comes back for the two architectures that it has", async () => {
  await using registry = await startRegistry();
  const reference = `${registry.host}/berth:1`;
  await push(layout, reference);
  const crane = (...args: readonly string[]) =>
    run("go", ["-C", join(root, "scripts/image"), "tool", "crane", ...args]);
  await crane("validate", "--remote", reference);
  for (const { architecture } of await imagesOf(layout)) {
    const { stdout } = await crane("config", "--platform", `linux/${architecture}`, reference);
    expect(JSON.parse(stdout)).toMatchObject({ architecture, config: { User: "65532:65532" } });
  }
  const arm = crane("config", "--platform", "linux/arm", reference);
  await expect(arm).rejects.toThrow("no child with platform linux/arm in index");
});

describe.each(ARCHITECTURES)("from its layers, on %s", (architecture) => {
  let folder: string;
  let image: Image;

  beforeAll(async () => {
    folder = await mkdtemp(join(scratch, "root-"));
    const found = (await imagesOf(layout)).find((candidate) => candidate.architecture === architecture);
    if (found === undefined) throw new Error(`no image for ${architecture}`);
    image = found;
    for (const layer of image.layers) await run("tar", ["-xpf", blobOf(layout, layer), "-C", folder]);
  });

  it("has nothing that its user may write, no shell, and the licences of all that is in it", async () => {
    expect((await run("find", [folder, "!", "-type", "l", "-perm", "/022"])).stdout).toBe("");
    expect((await run("find", [folder, "!", "-type", "l", "-perm", "/111", "-path", "*bin/*"])).stdout).toBe(
      `${folder}/usr/bin/node\n`,
    );
    const licences = ["berth/LICENSE", "berth/THIRD-PARTY-NOTICES.txt", "usr/share/doc/node/LICENSE"];
    const copyrights = Object.keys(await readPins()).map((name) => `usr/share/doc/${name}/copyright`);
    for (const file of [...licences, ...copyrights])
      expect((await readFile(join(folder, file))).length).toBeGreaterThan(500);
  });

  it("is ready on an empty cluster, read-only and as its user", async () => {
    await using cluster = await startTestCluster();
    await run("sh", ["-c", 'mkdir "$0/proc" "$0/dev"', folder]);
    await copyFile(QEMU, join(folder, "qemu"));
    await writeFile(join(folder, "kubeconfig"), cluster.kubeconfig());
    const [node = "", ...program] = image.config.Entrypoint;
    const native = architecture === (process.arch === "arm64" ? "arm64" : "amd64");
    const command = native ? [node, ...program] : ["/qemu", `/usr/bin/${node}`, ...program];
    const times: number[] = [];
    // What the first start reads from the disk is in memory for the next.
    for (let start = 0; start < (native ? 3 : 1); start++) {
      const startedAt = performance.now();
      await using berth = startBerthProcess({
        command: ["unshare", "--mount", "sh", "-c", ENTER, folder, image.config.User, ...command],
        args: ["run", "--kubeconfig", "/kubeconfig", ...SERVERS],
      });
      const isReady = async (): Promise<void> => expect(await berth.answers("/readyz")).toBe(true);
      await eventually(isReady, { everyMs: 25, timeoutMs: EMULATED_MS });
      times.push(performance.now() - startedAt);
    }
    const tookMs = Math.min(...times);
    console.log(`${architecture}: ready after ${tookMs.toFixed(0)} ms`);
    expect(tookMs).toBeLessThanOrEqual(native ? READY_MS : EMULATED_MS);
  });
});
