/** Digests as in the OCI image specification, "Digests": `algorithm:encoded`. */
import { createHash } from "node:crypto";

/** Length of the lower-case hex text by algorithm. sha384 is not registered there, but go-digest accepts it. */
const HEX_LENGTH: ReadonlyMap<string, number> = new Map([
  ["sha256", 64],
  ["sha384", 96],
  ["sha512", 128],
]);

/** Whether the digest is one that `hasDigest` can check: sha256, sha384 or sha512, in lower-case hex. */
export function isCheckable(digest: string): boolean {
  const [algorithm = "", hex = "", ...more] = digest.split(":");
  return more.length === 0 && HEX_LENGTH.get(algorithm) === hex.length && /^[0-9a-f]+$/.test(hex);
}

/** Whether the bytes match the digest. Also `false` for a digest that cannot be checked. */
export function hasDigest(bytes: Uint8Array, digest: string): boolean {
  return isCheckable(digest) && digestOf(bytes, digest.split(":")[0] ?? "") === digest;
}

/** `sha256:…` of the bytes, the usual algorithm of registries. */
export function digestOf(bytes: Uint8Array, algorithm: string = "sha256"): string {
  return `${algorithm}:${createHash(algorithm).update(bytes).digest("hex")}`;
}
