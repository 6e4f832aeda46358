import { spawn } from "node:child_process";
import { once } from "node:events";
import { SAME_EVERYWHERE } from "../image/layout.ts";
import { root } from "../run-tool.ts";

/**
 * Runs a program in the repository and resolves with what it prints. What it says on standard error goes to ours.
 * @throws Error when it fails.
 */
export async function run(program: string, args: readonly string[], folder: string = root): Promise<string> {
  const child = spawn(program, args, { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`${program} ${args.join(" ")} failed:\n${output.slice(-2000)}`);
  return output.trimEnd();
}

/** Packs a folder, or names in it: the same bytes whenever it is done. A name that ends in gz is compressed. */
export async function pack(
  archive: string,
  folder: string,
  date: Date,
  names: readonly string[] = ["."],
): Promise<void> {
  const tar = ["--create", `--mtime=@${date.getTime() / 1000}`, ...SAME_EVERYWHERE];
  const filter = archive.endsWith("gz") ? ["--use-compress-program=gzip --no-name"] : [];
  await run("tar", [...tar, ...filter, "--file", archive, ...names], folder);
}
