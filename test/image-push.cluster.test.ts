/** What `make image ARGS="--push …"` does, with small layers and a real registry. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRegistryClient, parseReference, platformText } from "@berth/registry";
import { OTHER_REGISTRY_USER, REGISTRY_USER, type RegistryUser, startRegistry } from "@berth/testcluster";
import { afterAll, beforeAll, expect, it } from "vitest";
import { push } from "../scripts/image/push.ts";
import { checkRegistry } from "../scripts/registries/check.ts";
import { writeSmallImage } from "../scripts/registries/small-image.ts";

const NAME = "team/berth:1";

let scratch: string;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "berth-push-"));
});
afterAll(() => rm(scratch, { recursive: true }));

const layoutOf = (content: string) => writeSmallImage(scratch, content);

/** An environment after `docker login` as this user. */
async function loggedIn(host: string, user?: RegistryUser): Promise<NodeJS.ProcessEnv> {
  const folder = await mkdtemp(join(scratch, "docker-"));
  const auth = Buffer.from(`${user?.name}:${user?.password}`).toString("base64");
  await writeFile(
    join(folder, "config.json"),
    JSON.stringify({ auths: user === undefined ? {} : { [host]: { auth } } }),
  );
  return { ...process.env, DOCKER_CONFIG: folder };
}

async function read(host: string, credentials: { username: string; password: string }[] = []) {
  await using client = createRegistryClient({ endpoints: { [host]: {} } });
  const { digest, platforms } = await client.read(parseReference(`${host}/${NAME}`), { credentials });
  return { digest, platforms: platforms.map(platformText) };
}

it("pushes both images under their index, to a registry without users and to one with", async () => {
  const { layout, digest } = await layoutOf("first");
  const pushed = { digest, platforms: ["linux/amd64", "linux/arm64"] };
  await using open = await startRegistry();
  const pinned = await push(layout, `${open.host}/${NAME}`, await loggedIn(open.host));
  expect(pinned).toBe(`${open.host}/team/berth@${digest}`);
  expect(await read(open.host)).toEqual(pushed);

  await using closed = await startRegistry({ users: [REGISTRY_USER] });
  const reference = `${closed.host}/${NAME}`;
  for (const user of [undefined, OTHER_REGISTRY_USER])
    await expect(push(layout, reference, await loggedIn(closed.host, user))).rejects.toThrow(
      "401 Unauthorized",
    );
  await push(layout, reference, await loggedIn(closed.host, REGISTRY_USER));
  const { name: username, password } = REGISTRY_USER;
  expect(await read(closed.host, [{ username, password }])).toEqual(pushed);

  // What `make registries` tries with registries of clouds.
  await using reader = createRegistryClient({ endpoints: { [closed.host]: {} } });
  const env = await loggedIn(closed.host, REGISTRY_USER);
  const credentials = [{ username, password }];
  const place = `${closed.host}/team`;
  expect(await checkRegistry(place, { reader, credentials, env, folder: scratch })).toEqual([
    expect.stringContaining("linux/amd64, linux/arm64, by tag and digest"),
    "without a login: unauthorized",
  ]);
  const lost = checkRegistry(place, { reader, credentials: [], env, folder: scratch });
  await expect(lost).rejects.toMatchObject({ kind: "unauthorized" });
});

it("leaves the name as it was when the registry refuses half of the layers, and ends the push next time", async () => {
  const [first, second] = [await layoutOf("first"), await layoutOf("second")];
  await using registry = await startRegistry();
  const env = await loggedIn(registry.host);
  await push(first.layout, `${registry.host}/${NAME}`, env);
  let uploads = 0;
  const refusing = createServer((incoming, outgoing) => {
    const { method, url = "", headers } = incoming;
    if (method === "POST" && ++uploads % 2 === 0) return outgoing.writeHead(403).end();
    const inner = request(`${registry.url}${url}`, { method, headers }, (answer) => {
      answer.pipe(outgoing.writeHead(answer.statusCode ?? 502, answer.headers));
    });
    return incoming.pipe(inner);
  });
  await new Promise<void>((resolve) => refusing.listen(0, "127.0.0.1", resolve));
  const { port } = refusing.address() as { readonly port: number };
  try {
    const reference = `127.0.0.1:${port}/${NAME}`;
    const refused = new RegExp(`^${reference} is what it was before[\\s\\S]* 403 Forbidden`);
    await expect(push(second.layout, reference, env)).rejects.toThrow(refused);
  } finally {
    refusing.closeAllConnections();
    refusing.close();
  }
  expect(uploads).toBeGreaterThan(1);
  expect((await read(registry.host)).digest).toBe(first.digest);
  await push(second.layout, `${registry.host}/${NAME}`, env);
  expect((await read(registry.host)).digest).toBe(second.digest);
});
