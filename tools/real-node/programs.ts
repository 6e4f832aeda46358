/** The programs of nodes: those from Go modules are built, those from Debian are unpacked. Nothing is installed. */
import { hash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, rename } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { ARCHITECTURES, CPUS } from "../../scripts/image/architectures.ts";
import { unpackDeb } from "../../scripts/image/deb.ts";
import { debianPackages, fetchPackages, fileOf, readPins } from "../../scripts/image/debian.ts";
import { run } from "../../scripts/run.ts";

export interface Programs {
  /** kubelet, kube-proxy and kubectl, by their first argument. */
  readonly kubernetes: string;
  readonly containerd: string;
  readonly runc: string;
  readonly busybox: string;
  /** The folder of CNI plugins. */
  readonly cni: string;
  /** They find each other, and libraries of their own, by it. */
  readonly env: NodeJS.ProcessEnv;
}

const PINS = join(import.meta.dirname, "debian.json");
const MODULE = join(import.meta.dirname, "programs");

/** The version that kubelets report. It is that of the control plane, as go.mod says. */
const VERSION = ["gitVersion=v1.36.3", "gitMajor=1", "gitMinor=36"].map(
  (it) => `-X k8s.io/component-base/version.${it}`,
);

/** Takes minutes the first time, seconds afterwards. */
export async function preparePrograms(): Promise<Programs> {
  const cache = join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "berth/real-node");
  const go = join(cache, "go");
  await mkdir(go, { recursive: true });
  await run("go", ["build", "-trimpath", "-ldflags", `-s -w ${VERSION.join(" ")}`, "-o", `${go}/`, "./..."], {
    cwd: MODULE,
    env: { ...process.env, CGO_ENABLED: "0" },
  });
  // There is no network where it pushes images.
  await run("go", ["-C", join(import.meta.dirname, "../../scripts/image"), "tool", "crane", "version"], {
    env: { ...process.env, CGO_ENABLED: "0" },
  });
  const debian = await unpackDebian(cache);
  const [libraries = ""] = await readdir(join(debian, "usr/lib")).then((names) =>
    names.filter((it) => it.endsWith("-gnu")),
  );
  const at = (path: string): string => join(debian, path);
  return {
    kubernetes: join(go, "kubernetes"),
    containerd: join(go, "containerd"),
    runc: at("usr/sbin/runc"),
    busybox: at("bin/busybox"),
    cni: at("usr/lib/cni"),
    env: {
      PATH: `${go}:${at("usr/sbin")}:${process.env["PATH"]}`,
      LD_LIBRARY_PATH: `${at(`usr/lib/${libraries}`)}:${at(`lib/${libraries}`)}`,
    },
  };
}

/** @returns the folder, which has the pins in its name. @throws Error that names a package that is gone. */
async function unpackDebian(cache: string): Promise<string> {
  const pins = await readPins(PINS);
  const folder = join(cache, `debian-${hash("sha256", JSON.stringify(pins)).slice(0, 12)}`);
  if (existsSync(folder)) return folder;
  const own = ARCHITECTURES.filter((architecture) => CPUS[architecture] === process.arch);
  const packages = debianPackages(pins, [...own, "all"]);
  await fetchPackages(packages, cache);
  const draft = `${folder}.${process.pid}`;
  await mkdir(draft, { recursive: true });
  for (const one of packages) await unpackDeb(join(cache, fileOf(one)), draft);
  await rename(draft, folder);
  return folder;
}
