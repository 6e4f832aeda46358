import { access, readFile } from "node:fs/promises";
import { run } from "../../scripts/run.ts";

const COMMANDS = ["findmnt", "go", "ip", "ldd", "nsenter", "tar", "unshare", "xz"];

/** One sentence for each thing that this machine lacks. */
export async function missingPrerequisites(): Promise<readonly string[]> {
  if (process.platform !== "linux") return ["nodes need Linux: run it on a Linux machine"];
  const missing: string[] = [];
  if (process.getuid?.() !== 0) missing.push("nodes need root, for namespaces and mounts: run it as root");
  for (const command of COMMANDS)
    await run("/bin/sh", ["-c", `command -v ${command}`]).catch(() =>
      missing.push(`there is no ${command} on the PATH: install it`),
    );
  const filesystems = await readFile("/proc/filesystems", "utf8");
  if (!/\boverlay$/m.test(filesystems))
    missing.push("the kernel has no overlay file system: run modprobe overlay");
  await access("/proc/sys/net/bridge/bridge-nf-call-iptables").catch(() =>
    missing.push("the kernel does not filter what bridges carry: run modprobe br_netfilter"),
  );
  return missing;
}
