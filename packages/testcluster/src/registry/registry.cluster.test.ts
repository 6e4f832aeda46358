import { createHash } from "node:crypto";
import { access } from "node:fs/promises";
import { request } from "undici";
import { describe, expect, it } from "vitest";
import { anImage } from "./image-builder.ts";
import { startRegistry, type TestRegistry } from "./registry.ts";
import { basicCredential, OTHER_REGISTRY_USER, REGISTRY_USER } from "./users.ts";

const ACCEPT = [
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
  "application/vnd.docker.distribution.manifest.v2+json",
].join(", ");

/** The parts of a manifest or an index that are looked at here. */
interface Manifest {
  readonly mediaType?: string;
  readonly artifactType?: string;
  readonly architecture?: string;
  readonly variant?: string;
  readonly config?: { readonly mediaType: string; readonly digest: string };
  readonly layers?: readonly { readonly mediaType: string; readonly digest: string; readonly size: number }[];
  readonly manifests?: readonly (Manifest & {
    readonly digest: string;
    readonly platform?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  })[];
}

/** Over a connection of its own, as a client that knows nothing. */
const send = (registry: TestRegistry, path: string, options: object = {}) =>
  request(`${registry.url}${path}`, { ...options, reset: true });

/** GET, and the digest of what came. */
async function get(registry: TestRegistry, path: string, headers: Record<string, string> = {}) {
  const answer = await send(registry, path, { headers: { accept: ACCEPT, ...headers } });
  const body = Buffer.from(await answer.body.arrayBuffer());
  return {
    status: answer.statusCode,
    type: String(answer.headers["content-type"]),
    digest: `sha256:${createHash("sha256").update(body).digest("hex")}`,
    body: body.length === 0 ? {} : (JSON.parse(body.toString()) as Manifest),
  };
}

describe("startRegistry", () => {
  it("stores an image of one platform as a manifest with its config and a layer that can be read", async () => {
    await using registry = await startRegistry();
    const image = await registry.push(anImage("team/app:1").platforms("linux/arm/v7"));
    expect(image.reference).toBe(`${registry.host}/team/app:1`);
    expect(image.children).toEqual([]);
    const manifest = await get(registry, "/v2/team/app/manifests/1");
    expect(manifest.type).toBe("application/vnd.oci.image.manifest.v1+json");
    expect(manifest.digest).toBe(image.digest);
    const config = await get(registry, `/v2/team/app/blobs/${manifest.body.config?.digest}`);
    expect(config.body).toMatchObject({ os: "linux", architecture: "arm", variant: "v7" });
    const [layer] = manifest.body.layers ?? [];
    const blob = await send(registry, `/v2/team/app/blobs/${layer?.digest}`);
    expect((await blob.body.arrayBuffer()).byteLength).toBe(layer?.size);
  });

  it("answers HEAD with the digest and without a body, and counts it as such", async () => {
    await using registry = await startRegistry();
    const { digest, repository } = await registry.push(anImage("app:1"));
    const mark = registry.requests.mark();
    const options = { method: "HEAD", headers: { accept: ACCEPT } };
    const answer = await send(registry, "/v2/app/manifests/1", options);
    expect(await answer.body.text()).toBe("");
    expect(answer.headers["docker-content-digest"]).toBe(digest);
    expect(registry.requests.tallySince(mark)).toEqual([
      { method: "HEAD", kind: "manifest", repository, count: 1 },
    ]);
  });

  it("counts what clients ask, by repository and since a mark, and nothing of a push", async () => {
    await using registry = await startRegistry();
    const { requests } = registry;
    const start = requests.mark();
    const { digest } = await registry.push(anImage("deep/team/app:1"));
    expect(requests.entriesSince(start)).toEqual([]);
    await get(registry, "/v2/");
    const { body } = await get(registry, "/v2/deep/team/app/manifests/1", { "user-agent": "tester/1" });
    const mark = requests.mark();
    await Promise.all(
      Array.from({ length: 20 }, () => get(registry, `/v2/deep/team/app/manifests/${digest}`)),
    );
    await get(registry, `/v2/deep/team/app/blobs/${body.config?.digest}`);
    await get(registry, "/v2/other/manifests/1");
    const repository = "deep/team/app";
    expect(requests.countSince(mark, { kind: "manifest", repository })).toBe(20);
    expect(requests.tallySince(mark)).toEqual([
      { method: "GET", kind: "manifest", repository, count: 20 },
      { method: "GET", kind: "blob", repository, count: 1 },
      { method: "GET", kind: "manifest", repository: "other", count: 1 },
    ]);
    expect(requests.countSince(mark, { status: 404 })).toBe(1);
    expect(requests.entriesSince(start, { userAgent: "tester/" })).toMatchObject([
      { method: "GET", kind: "manifest", repository, reference: "1", credential: "", user: "", status: 200 },
    ]);
    expect(requests.countSince(start, { kind: "ping" })).toBe(1);
  });

  it("asks for a user where it has some, and says who came", async () => {
    await using registry = await startRegistry({ users: [REGISTRY_USER] });
    await registry.push(anImage("app:1"));
    const mark = registry.requests.mark();
    const path = "/v2/app/manifests/1";
    const as = async (authorization: string): Promise<number> =>
      (await get(registry, path, { authorization })).status;
    expect((await get(registry, path)).status).toBe(401);
    expect(await as(basicCredential(OTHER_REGISTRY_USER))).toBe(401);
    expect(await as(basicCredential({ ...REGISTRY_USER, password: "wrong" }))).toBe(401);
    expect(await as(basicCredential(REGISTRY_USER))).toBe(200);
    expect(registry.requests.entriesSince(mark).map(({ credential, user }) => [credential, user])).toEqual([
      ["", ""],
      ["basic", "other"],
      ["basic", "reader"],
      ["basic", "reader"],
    ]);
    expect(JSON.stringify(registry.requests.entriesSince(mark))).not.toContain(REGISTRY_USER.password);
  });

  it("leaves no connection and no file behind", async () => {
    let left: TestRegistry;
    {
      await using registry = await startRegistry();
      left = registry;
    }
    await expect(get(left, "/v2/")).rejects.toMatchObject({ code: "ECONNREFUSED" });
    await expect(access(left.folder)).rejects.toMatchObject({ code: "ENOENT" });
  });

  it("reports a taken port, and leaves the registry that has it alone", async () => {
    await using first = await startRegistry();
    const port = Number(first.host.split(":")[1]);
    await expect(startRegistry({ port })).rejects.toMatchObject({ code: "EADDRINUSE" });
    expect((await get(first, "/v2/")).status).toBe(200);
  });
});
