/** Builds the careful Go controller in `peers/careful`, once for each state of its sources. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { access, mkdir, readFile, rename } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Program } from "./process.ts";

const source = join(import.meta.dirname, "peers/careful");
const FILES: readonly string[] = ["go.mod", "go.sum", "main.go", "fleet.go"];

/** User agent of the peer. */
export const PEER_AGENT = "bench-careful";

export interface PeerArgs {
  readonly kubeconfig: string;
  readonly device: string;
  readonly label: string;
  /** Keep all pods as well, with an index by node. Default false. */
  readonly pods?: boolean;
  /** Of all pods, those with this label, or with these fields. Default: every one. */
  readonly podLabels?: string;
  readonly podFields?: string;
  /** Further resources that it keeps: `daemonsets`, `namespaces`. Default none. */
  readonly also?: readonly string[];
  /** Drop managedFields before an object is kept. Default false: controller-runtime keeps them. */
  readonly strip?: boolean;
}

/** Its program, built first when the user's cache has none: about a minute. @throws when Go is missing or fails. */
export async function buildPeer(onProgress: (text: string) => void): Promise<string> {
  const hash = createHash("sha256");
  for (const file of FILES) hash.update(`${file}\n`).update(await readFile(join(source, file)));
  const key = hash.update(`${process.platform} ${process.arch}`).digest("hex").slice(0, 16);
  const base = process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache");
  const folder = join(base, "berth/peers", key);
  const binary = join(folder, "careful");
  if (await exists(binary)) return binary;
  onProgress("building the Go peer, once; about two minutes with an empty Go cache");
  await mkdir(folder, { recursive: true });
  const unfinished = `${binary}.${process.pid}`;
  await promisify(execFile)("go", ["build", "-trimpath", "-ldflags=-s -w", "-o", unfinished, "."], {
    cwd: source,
    env: { ...process.env, CGO_ENABLED: "0" },
  });
  await rename(unfinished, binary);
  return binary;
}

export function peerProgram(binary: string, options: PeerArgs): Program {
  const { kubeconfig, device, label, pods, podLabels = "", podFields = "", also = [], strip } = options;
  const args = ["-config", kubeconfig, "-device", device, "-label", label];
  if (pods) args.push("-pods", "-pod-labels", podLabels, "-pod-fields", podFields);
  if (also.length > 0) args.push("-also", also.join());
  if (strip) args.push("-strip");
  return { name: "the Go peer", command: binary, args, userAgent: PEER_AGENT };
}

/** It keeps Instances, their pods and their claims, and writes nothing. */
export function fleetPeerProgram(
  binary: string,
  { kubeconfig, strip }: Pick<PeerArgs, "kubeconfig" | "strip">,
): Program {
  const args = ["-config", kubeconfig, "-fleet", ...(strip ? ["-strip"] : [])];
  return { name: "the Go peer", command: binary, args, userAgent: PEER_AGENT };
}

async function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}
