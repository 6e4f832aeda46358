import { mkdtempDisposable, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { followKubeconfig } from "./followed-kubeconfig.ts";

const config = (token: string, { server = "https://a", ca = "one" } = {}): string =>
  JSON.stringify({
    clusters: [
      {
        name: "k",
        cluster: { server, "certificate-authority-data": Buffer.from(ca).toString("base64") },
      },
    ],
    users: [{ name: "u", user: { token } }],
    contexts: [{ name: "c", context: { cluster: "k", user: "u" } }],
    "current-context": "c",
  });

async function following(ttlMs?: number) {
  const folder = await mkdtempDisposable(path.join(tmpdir(), "berth-followed-"));
  const file = path.join(folder.path, "config");
  await writeFile(file, config("old"));
  const { connect } = await followKubeconfig(file, { environment: {} }, ttlMs);
  const { credential } = connect;
  return {
    write: (text: string) => writeFile(file, text),
    remove: () => rm(file),
    server: connect.server,
    /** `TOKEN AUTHORITY` */
    async now(): Promise<string> {
      const { authorization, ca } = await credential.material();
      return `${authorization?.replace("Bearer ", "")} ${ca}`;
    },
    refuse: async () => credential.reject(await credential.material()),
    [Symbol.asyncDispose]: () => folder.remove(),
  };
}

describe("a kubeconfig that is followed", () => {
  it("gives the token and the authority that it has, once its time is over", async () => {
    await using file = await following(0);
    await file.write(config("new", { ca: "two" }));
    expect(await file.now()).toBe("new two");
  });

  it("is not read before, but at once where the server refuses what it had", async () => {
    await using file = await following();
    await file.write(config("new"));
    expect(await file.now()).toBe("old one");
    await file.refuse();
    expect(await file.now()).toBe("new one");
    await file.write(config("newer"));
    expect(await file.now()).toBe("new one");
  });

  it.each([
    ["is gone", undefined],
    ["is half written", '{"clusters": ['],
    ["is empty", ""],
    ["names another server", config("of another", { server: "https://b" })],
  ])("stays as it was where the file %s, and goes on when it is right again", async (_, text) => {
    await using file = await following(0);
    await (text === undefined ? file.remove() : file.write(text));
    expect([await file.now(), file.server]).toEqual(["old one", "https://a"]);
    await file.write(config("new"));
    expect(await file.now()).toBe("new one");
  });
});
