import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";

/** `sha256:…`, as OCI names content. */
export function digestOf(bytes: Buffer): string {
  return `sha256:${hash("sha256", bytes)}`;
}

/** Whether a file is there and has this hash (hex, or base64 as npm writes it). */
export async function hasHash(path: string, algorithm: string, expected: string): Promise<boolean> {
  const bytes = await readFile(path).catch(() => undefined);
  if (bytes === undefined) return false;
  return [hash(algorithm, bytes), hash(algorithm, bytes, "base64")].includes(expected);
}
