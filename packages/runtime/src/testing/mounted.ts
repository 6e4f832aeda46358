import { mkdir, readdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** What kubelet does for a mounted ConfigMap or Secret: a new timestamped folder, then `..data` is swapped by a rename. */
export async function publish(
  root: string,
  revision: number,
  data: Readonly<Record<string, string>>,
): Promise<void> {
  const folder = `..2026_11_21_${revision}`;
  await mkdir(join(root, folder), { recursive: true });
  for (const [key, text] of Object.entries(data)) await writeFile(join(root, folder, key), text);
  await symlink(folder, join(root, "..data_tmp"));
  await rename(join(root, "..data_tmp"), join(root, "..data"));
  const present = await readdir(root);
  for (const key of Object.keys(data))
    if (!present.includes(key)) await symlink(join("..data", key), join(root, key));
  for (const old of present) {
    const isOld = old.startsWith("..") ? old.startsWith("..2026") && old !== folder : !(old in data);
    if (isOld) await rm(join(root, old), { recursive: true });
  }
}
