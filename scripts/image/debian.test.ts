import { hash } from "node:crypto";
import { mkdtempDisposable, readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type DebianPackage, fetchPackages } from "./debian.ts";

const path = "debian/pool/main/g/glibc/libc6_2.36-9+deb12u14_amd64.deb";
const bytes = Buffer.from("a package");
const libc: DebianPackage = {
  name: "libc6",
  license: "LGPL-2.1-or-later",
  build: "amd64",
  version: "2.36-9+deb12u14",
  path,
  sha256: hash("sha256", bytes),
};

/** Answers every request with this, and counts them. */
async function aMirror(status: number, body: Buffer) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? "");
    response.writeHead(status).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { readonly port: number };
  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    [Symbol.dispose]: () => void server.close(),
  };
}

describe("packages of Debian", () => {
  it("are fetched once, by the path of their pin", async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "berth-debian-"));
    using mirror = await aMirror(200, bytes);
    await fetchPackages([libc], folder.path, mirror.url);
    await fetchPackages([libc], folder.path, mirror.url);
    expect(mirror.asked).toEqual([`/${path}`]);
    expect(await readFile(join(folder.path, "libc6_2.36-9+deb12u14_amd64.deb"))).toEqual(bytes);
  });

  it.each([
    [404, bytes, /libc6_2\.36-9\+deb12u14_amd64\.deb is gone[^]*make image ARGS="--renew-packages"/],
    [503, bytes, /libc6_2\.36-9\+deb12u14_amd64\.deb: HTTP 503/],
    [200, Buffer.from("another"), /libc6_2\.36-9\+deb12u14_amd64\.deb is not as it is pinned/],
  ])("are named when the mirror answers with %i and %s", async (status, body, message) => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "berth-debian-"));
    using mirror = await aMirror(status, body);
    await expect(fetchPackages([libc], folder.path, mirror.url)).rejects.toThrow(message);
    await expect(readFile(join(folder.path, "libc6_2.36-9+deb12u14_amd64.deb"))).rejects.toThrow("ENOENT");
  });

  it("are named when no mirror is there", async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "berth-debian-"));
    const mirror = await aMirror(200, bytes);
    mirror[Symbol.dispose]();
    await expect(fetchPackages([libc], folder.path, mirror.url)).rejects.toThrow(/libc6_.*ECONNREFUSED/);
  });
});
