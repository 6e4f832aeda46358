/** The programs of nodes: those from Go modules are built, those from Debian are unpacked. Nothing is installed. */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { run, shell } from "./shell.ts";

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
  const pins = await readFile(PINS, "utf8");
  const folder = join(cache, `debian-${createHash("sha256").update(pins).digest("hex").slice(0, 12)}`);
  if (existsSync(folder)) return folder;
  const draft = `${folder}.${process.pid}`;
  await mkdir(draft, { recursive: true });
  const packages = Object.entries(JSON.parse(pins) as Record<string, string>).map((pin) => pin.join("="));
  const download = ["-o", "APT::Sandbox::User=root", "download", ...packages];
  await run("apt-get", download, { cwd: draft }).catch(async (cause: Error) => {
    await rm(draft, { recursive: true });
    const renew = "apt-get update; make real-node ARGS=--renew-pins";
    throw new Error(
      `Debian serves a pinned package no more: ${cause.message}\nThis renews the pins: ${renew}`,
      { cause },
    );
  });
  await shell(`cd ${draft}; for package in *.deb; do dpkg-deb -x "$package" .; rm "$package"; done`);
  await rm(folder, { recursive: true, force: true });
  await rename(draft, folder);
  return folder;
}

/** Pins the versions that apt would install now. */
export async function renewPins(): Promise<void> {
  const pins = JSON.parse(await readFile(PINS, "utf8")) as Record<string, string>;
  for (const name of Object.keys(pins)) {
    const policy = await run("apt-cache", ["policy", name]);
    const candidate = /Candidate: (?<version>\S+)/.exec(policy)?.groups?.["version"];
    if (candidate === undefined || candidate === "(none)")
      throw new Error(`apt knows no package ${name}: run apt-get update`);
    pins[name] = candidate;
  }
  await writeFile(PINS, `${JSON.stringify(pins, undefined, 2)}\n`);
}
