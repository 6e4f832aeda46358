import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type ExecContext, type ExecPlugin, execCredential, parseExecAnswer } from "./exec-credential.ts";

const V1 = "client.authentication.k8s.io/v1";
const PLUGIN: ExecPlugin = { apiVersion: V1, command: "./plugin" };
const IN_AN_HOUR = (): string => new Date(Date.now() + 3_600_000).toISOString();

const answer = (status: object, apiVersion: string = V1): string =>
  JSON.stringify({ apiVersion, kind: "ExecCredential", status });

async function createFixture(cluster?: ExecContext["cluster"]) {
  const folder = await mkdtempDisposable(join(tmpdir(), "berth-exec-"));
  const { path } = folder;
  return {
    path,
    context: { folder: path, environment: { PATH: "/usr/bin:/bin" }, ...(cluster ? { cluster } : {}) },
    /** What the plugin does, as a shell script; each run leaves a line in `runs`. */
    script: (body: string) =>
      writeFile(join(path, "plugin"), `#!/bin/sh\necho run >> '${path}/runs'\n${body}\n`, { mode: 0o755 }),
    runs: async () => (await readFile(join(path, "runs"), "utf8")).split("\n").length - 1,
    [Symbol.asyncDispose]: () => folder.remove(),
  };
}

describe("T-16 execCredential", () => {
  it("tells nothing about the cluster unless the plugin asks", async () => {
    await using fixture = await createFixture({ server: "https://a:6443" });
    await fixture.script(`
      printf '%s' "$KUBERNETES_EXEC_INFO" > '${fixture.path}/info'
      echo '${answer({ token: "t" })}'`);
    await execCredential(PLUGIN, fixture.context).material();
    expect(await readFile(join(fixture.path, "info"), "utf8")).not.toContain("cluster");
  });

  it("runs again before the answer expires, and after the server refused it", async () => {
    await using fixture = await createFixture();
    const soon = new Date(Date.now() + 10_000).toISOString();
    await fixture.script(`echo '${answer({ token: "t", expirationTimestamp: soon })}'`);
    const credential = execCredential(PLUGIN, fixture.context);
    await credential.material();
    await fixture.script(`echo '${answer({ token: "t", expirationTimestamp: IN_AN_HOUR() })}'`);
    const held = await credential.material();
    expect(await fixture.runs()).toBe(2);
    credential.reject(held);
    await credential.material();
    expect(await fixture.runs()).toBe(3);
  });

  it("gives the hint of the kubeconfig when the plugin is not installed", async () => {
    await using fixture = await createFixture();
    const plugin = { ...PLUGIN, command: "no-such-plugin", installHint: "Get it from example.com.\n" };
    await expect(execCredential(plugin, fixture.context).material()).rejects.toThrow(
      "the credential plugin no-such-plugin is not installed. Get it from example.com.",
    );
  });

  it("says how the plugin failed without repeating what it printed", async () => {
    await using fixture = await createFixture();
    await fixture.script("echo secret-out; echo secret-err >&2; exit 3");
    const failure = await execCredential(PLUGIN, fixture.context)
      .material()
      .catch((error: unknown) => error);
    expect(failure).toEqual(new Error("the credential plugin ./plugin failed (3)."));
    expect(JSON.stringify(failure, Object.getOwnPropertyNames(failure))).not.toContain("secret");
  });

  it("refuses a plugin that needs a terminal, without running it", async () => {
    await using fixture = await createFixture();
    await fixture.script(`echo '${answer({ token: "t" })}'`);
    const credential = execCredential({ ...PLUGIN, interactiveMode: "Always" }, fixture.context);
    await expect(credential.material()).rejects.toThrow("wants a terminal");
    await expect(fixture.runs()).rejects.toThrow("ENOENT");
  });
});

describe("parseExecAnswer", () => {
  const now = Date.parse("2026-01-01T00:00:00Z");

  it("takes a token, a certificate, or both", () => {
    const status = { token: "t", clientCertificateData: "CERT", clientKeyData: "KEY" };
    expect(parseExecAnswer(PLUGIN, answer(status), now)).toEqual({
      material: { authorization: "Bearer t", certificate: { cert: "CERT", key: "KEY" } },
      ttlMs: Number.POSITIVE_INFINITY,
    });
  });

  it("lets go of it half a minute before it expires", () => {
    const at = (expirationTimestamp: string): number =>
      parseExecAnswer(PLUGIN, answer({ token: "t", expirationTimestamp }), now).ttlMs;
    expect(at("2026-01-01T00:10:00Z")).toBe(570_000);
    expect(at("2026-01-01T00:00:10Z")).toBe(0);
    expect(at("2025-01-01T00:00:00Z")).toBe(0);
  });

  it.each([
    ["something that is not JSON", "token: secret"],
    ["something that is not an ExecCredential", '{"kind":"Status","status":{"token":"secret"}}'],
    ["something that is not an ExecCredential", "null"],
    [`with another version than ${V1}`, answer({ token: "secret" }, "client.authentication.k8s.io/v1beta1")],
    ["without a token and without a client certificate", answer({ clientCertificateData: "secret" })],
    ["with an expirationTimestamp that is no time", answer({ token: "secret", expirationTimestamp: "soon" })],
  ])("refuses an answer %s", (why, text) => {
    const parse = (): unknown => parseExecAnswer(PLUGIN, text, now);
    expect(parse).toThrow(`the credential plugin ./plugin answered ${why}`);
    expect(parse).not.toThrow("secret");
  });
});
