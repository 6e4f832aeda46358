import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";

const run = promisify(execFile);
const INDEX = import.meta.resolve("./index.ts");

/** What a process of its own prints that runs this module. */
async function runModule(source: string): Promise<string> {
  const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", source]);
  return stdout.trim();
}

describe("the package in a process of its own", () => {
  it("T-17 loads undici, and YAML only when a kubeconfig is read", async () => {
    const loaded = await runModule(`
      import { _cache } from "node:module";
      import { loadKubeconfig } from ${JSON.stringify(INDEX)};
      const has = (name) => Object.keys(_cache).some((path) => path.includes("/node_modules/" + name + "/"));
      const before = [has("undici"), has("yaml")];
      await loadKubeconfig(["/dev/null"], { environment: {} }).catch(() => undefined);
      console.log(JSON.stringify([...before, has("yaml")]));
    `);
    expect(JSON.parse(loaded)).toEqual([true, false, true]);
  });

  it("keeps the process running while it waits for its turn, and not after close", async () => {
    let asked = 0;
    await using server = createServer((_, response) => {
      asked++;
      if (asked === 1) response.writeHead(429, { "retry-after": "1" });
      response.end("v1");
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as AddressInfo;
    const printed = await runModule(`
      import { connect, staticCredential } from ${JSON.stringify(INDEX)};
      const client = connect({ server: "http://127.0.0.1:${port}", credential: staticCredential() });
      console.log(await client.read("/version"));
      await client.close();
    `);
    expect(printed).toBe("v1");
    expect(asked).toBe(2);
  });
});
