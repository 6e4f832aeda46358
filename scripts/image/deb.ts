/** Unpacks packages of Debian (deb(5)) with tar and xz, which every Linux has. */
import { readFile } from "node:fs/promises";
import { run } from "../run.ts";

const MAGIC = "!<arch>\n";
/** Of a member in an ar archive: its name in 16 bytes, its size in 10 at 48. */
const HEADER = 60;

/** @returns its control file. @throws Error for a file that is none, or is packed by another program than xz. */
export async function unpackDeb(file: string, folder: string): Promise<string> {
  const members = membersOf(await readFile(file));
  const [control, data] = ["control.tar.xz", "data.tar.xz"].map((name) => members.get(name));
  if (control === undefined || data === undefined)
    throw new Error(
      `${file} is no package of Debian packed with xz: it has ${[...members.keys()].join(", ")}`,
    );
  await run("tar", ["-xpJf", "-", "-C", folder], { input: data });
  return await run("tar", ["-xJOf", "-", "./control"], { input: control });
}

function membersOf(archive: Buffer): ReadonlyMap<string, Buffer> {
  const members = new Map<string, Buffer>();
  if (archive.toString("latin1", 0, MAGIC.length) !== MAGIC) return members;
  for (let at = MAGIC.length; at + HEADER <= archive.length; ) {
    const header = archive.toString("latin1", at, at + HEADER);
    const size = Number.parseInt(header.slice(48, 58), 10);
    if (Number.isNaN(size)) break;
    const start = at + HEADER;
    members.set(header.slice(0, 16).trimEnd(), archive.subarray(start, start + size));
    // Members begin at even offsets.
    at = start + size + (size % 2);
  }
  return members;
}
