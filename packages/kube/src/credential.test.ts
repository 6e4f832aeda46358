import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  bearerToken,
  type CredentialMaterial,
  cachedCredential,
  type FreshMaterial,
  staticCredential,
  tokenFile,
} from "./credential.ts";

const FOR_EVER = Number.POSITIVE_INFINITY;

interface Source {
  readonly fetches: number;
  readonly fetch: () => Promise<FreshMaterial>;
}

/** Gives `token 1`, `token 2`, … */
function numbered(ttlMs: number): Source {
  let fetches = 0;
  return {
    get fetches() {
      return fetches;
    },
    fetch: async () => {
      fetches++;
      const authorization = `token ${fetches}`;
      await Promise.resolve();
      return { material: { authorization }, ttlMs };
    },
  };
}

async function temporaryFolder(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), "berth-kube-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) };
}

describe("cachedCredential", () => {
  it("fetches once for any number of callers", async () => {
    const source = numbered(FOR_EVER);
    const credential = cachedCredential(source.fetch);
    const given = await Promise.all(Array.from({ length: 20 }, () => credential.material()));
    expect(new Set(given.map(({ authorization }) => authorization))).toEqual(new Set(["token 1"]));
    expect(source.fetches).toBe(1);
  });

  it("fetches again when the time is over", async () => {
    const source = numbered(0);
    const credential = cachedCredential(source.fetch);
    expect((await credential.material()).authorization).toBe("token 1");
    expect((await credential.material()).authorization).toBe("token 2");
  });

  it("fetches again once when many requests were refused with the same material", async () => {
    const source = numbered(FOR_EVER);
    const credential = cachedCredential(source.fetch);
    const old = await credential.material();
    const given = await Promise.all(
      Array.from({ length: 20 }, () => {
        credential.reject(old);
        return credential.material();
      }),
    );
    // A request that was slower than the refresh rejects the old material, which is no reason to fetch again.
    credential.reject(old);
    given.push(await credential.material());
    expect(new Set(given.map(({ authorization }) => authorization))).toEqual(new Set(["token 2"]));
    expect(source.fetches).toBe(2);
  });

  it("keeps what it has when a refresh fails, unless the server refused that", async () => {
    let works = true;
    const credential = cachedCredential(async () => {
      if (!works) throw new Error("the disk is gone");
      return { material: { authorization: "good" }, ttlMs: 0 };
    });
    const first = await credential.material();
    works = false;
    expect(await credential.material()).toBe(first);
    credential.reject(first);
    await expect(credential.material()).rejects.toThrow("the disk is gone");
    works = true;
    expect((await credential.material()).authorization).toBe("good");
  });

  it("never hands out rejected material again, in any order of calls", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom("ask", "reject", "fail", "heal"), { maxLength: 30 }),
        async (steps) => {
          let failing = false;
          let number = 0;
          const credential = cachedCredential(async () => {
            if (failing) throw new Error("failing");
            return { material: { authorization: String(++number) }, ttlMs: FOR_EVER };
          });
          const refused = new Set<CredentialMaterial>();
          let last: CredentialMaterial | undefined;
          const act: Readonly<Record<(typeof steps)[number], () => unknown>> = {
            fail: () => (failing = true),
            heal: () => (failing = false),
            reject: () => {
              if (last === undefined) return;
              credential.reject(last);
              refused.add(last);
            },
            ask: async () => {
              last = await credential.material().catch(() => undefined);
              expect(last === undefined ? failing : !refused.has(last)).toBe(true);
            },
          };
          for (const step of steps) await act[step]();
        },
      ),
    );
  });
});

describe("tokenFile", () => {
  it("reads again when its time is over, and keeps the old token while a rotation is half done", async () => {
    await using folder = await temporaryFolder();
    const file = join(folder.path, "token");
    await writeFile(file, "one");
    const credential = tokenFile(file, 0);
    await credential.material();
    await writeFile(file, "");
    expect(await credential.material()).toEqual({ authorization: "Bearer one" });
    await writeFile(file, "two");
    expect(await credential.material()).toEqual({ authorization: "Bearer two" });
  });

  it("names the file that is missing or empty", async () => {
    await using folder = await temporaryFolder();
    const file = join(folder.path, "token");
    await expect(tokenFile(file).material()).rejects.toThrow(`the token file ${file} cannot be read: ENOENT`);
    await writeFile(file, " \n");
    await expect(tokenFile(file).material()).rejects.toThrow(`the token file ${file} is empty`);
  });
});

it("staticCredential stays the same, refused or not", async () => {
  const credential = bearerToken("abc");
  const material = await credential.material();
  credential.reject(material);
  expect(await credential.material()).toEqual({ authorization: "Bearer abc" });
  expect(await staticCredential().material()).toEqual({});
});
