import { describe, expect, it } from "vitest";
import { type FaultRegistry, startFaultRegistry } from "../../../registry/src/testing/fault-registry.ts";
import { exitCodes } from "../exit-codes.ts";
import { type CliResult, cli, testFolder } from "../testing/harness.ts";
import { registriesDocument } from "../testing/registries.ts";

const PASSWORD = "correct-horse-battery";

function plain(text: string, host: string): string {
  return text.replaceAll(host, "REGISTRY").replaceAll(/sha256:[0-9a-f]{64}/g, "sha256:DIGEST");
}

const kind = { apiVersion: "berth.dev/v1alpha1", kind: "ImageRegistries", metadata: { name: "default" } };
const document = (spec: object): string => JSON.stringify({ ...kind, spec });

/** Run by a user who lists the registry. */
async function inspected(registry: FaultRegistry, ...args: readonly string[]): Promise<CliResult> {
  await using folder = await testFolder({ "berth.json": registriesDocument(registry) });
  return await cli(["image", "inspect", "--config", "berth.json", ...args], { folder: folder.path });
}

describe("berth image inspect", () => {
  it("prints what an image runs on, who said so, and at what cost", async () => {
    await using registry = await startFaultRegistry();
    registry.index("team/app", "1", ["linux/amd64", "linux/arm/v7"], { attestations: true });
    const { code, stdout, stderr } = await inspected(registry, `${registry.host}/team/app:1`);
    expect([code, stderr]).toEqual([exitCodes.done, ""]);
    expect(plain(stdout, registry.host)).toMatchInlineSnapshot(`
      "Name:          REGISTRY/team/app:1
      Digest:        sha256:DIGEST
      Media type:    application/vnd.oci.image.index.v1+json
      Answered by:   REGISTRY, after 1 request

      OS      ARCHITECTURE   VARIANT
      linux   amd64
      linux   arm            v7
      "
    `);
  });

  it("A-P6 reads an image of one platform from its config, and prints it for scripts", async () => {
    await using registry = await startFaultRegistry();
    const digest = registry.image("team/app", "1", "linux/arm64", { format: "docker" });
    const name = `${registry.host}/team/app:1`;
    const { code, stdout } = await inspected(registry, "-o", "json", name);
    expect(code).toBe(exitCodes.done);
    expect(JSON.parse(stdout)).toEqual({
      name,
      digest,
      mediaType: "application/vnd.docker.distribution.manifest.v2+json",
      platforms: [{ os: "linux", architecture: "arm64" }],
      registry: registry.host,
      requests: 2,
    });
  });

  it("asks a mirror first, and the registry where that fails", async () => {
    await using registry = await startFaultRegistry();
    await using mirror = await startFaultRegistry();
    const registries = [{ registry: registry.host, mirrors: [mirror.origin] }];
    await using folder = await testFolder({ "berth.json": document({ registries }) });
    for (const one of [registry, mirror]) one.index("team/app", "1", ["linux/amd64"]);
    const args = ["image", "inspect", "--config", "berth.json", "-o", "json", `${registry.host}/team/app:1`];
    const answeredBy = async (): Promise<unknown> => {
      const { stdout } = await cli(args, { folder: folder.path });
      return (JSON.parse(stdout) as { readonly registry: string }).registry;
    };
    expect(await answeredBy()).toBe(mirror.host);
    using _fault = mirror.inject({ does: "status", status: 500 });
    expect(await answeredBy()).toBe(registry.host);
  });

  it("gives up when a running Berth does, after three times the timeout", async () => {
    await using registry = await startFaultRegistry();
    registry.index("team/app", "1", ["linux/amd64"]);
    await using mirrors = new AsyncDisposableStack();
    const silent = await Promise.all([1, 2, 3, 4].map(async () => mirrors.use(await startFaultRegistry())));
    for (const mirror of silent) mirror.inject({ does: "silence" });
    const registries = [{ registry: registry.host, mirrors: silent.map(({ origin }) => origin) }];
    await using folder = await testFolder({ "berth.json": document({ timeout: "200ms", registries }) });
    const args = ["image", "inspect", "--config", "berth.json", `${registry.host}/team/app:1`];
    const { code, stderr } = await cli(args, { folder: folder.path });
    expect(code).toBe(exitCodes.failed);
    expect(stderr).toContain("had not answered when the lookup ended");
  });

  it("A-B4 takes the credentials of the docker config that is for all pods, and never shows them", async () => {
    const auth = { scheme: "basic", users: { team: PASSWORD } } as const;
    await using registry = await startFaultRegistry({ auth });
    registry.index("team/app", "1", ["linux/amd64"]);
    const auths = { [registry.host]: { username: "team", password: PASSWORD } };
    await using folder = await testFolder({
      "good.json": document({ dockerConfig: "docker/config", registries: [{ registry: registry.host }] }),
      "docker/config": JSON.stringify({ auths }),
      "missing.json": document({ dockerConfig: "docker/other", registries: [{ registry: registry.host }] }),
    });
    const inspect = (config: string): Promise<CliResult> =>
      cli(["image", "inspect", "--config", config, `${registry.host}/team/app:1`], { folder: folder.path });
    const good = await inspect("good.json");
    expect([good.code, good.stderr]).toEqual([exitCodes.done, ""]);
    const missing = await inspect("missing.json");
    expect(missing.code).toBe(exitCodes.failed);
    const parts = [
      "docker/other: it cannot be read: ENOENT",
      "imagePullSecret",
      "--pull-secret NAMESPACE/NAME",
    ];
    for (const part of parts) expect(missing.stderr).toContain(part);
    expect(`${good.stdout}${missing.stdout}${missing.stderr}`).not.toContain(PASSWORD);
  });

  it("says what is wrong as somebody would act on it", async () => {
    await using registry = await startFaultRegistry();
    registry.index("team/app", "1", ["linux/amd64"]);
    using _fault = registry.inject({ does: "garbage" }, { repository: "team/app" });
    const none = "REGISTRY does not have it (404). Check its name, tag and digest";
    const upper = `"Team/App" is not an image name: its repository "App" has to be in lower case`;
    for (const [args, code, says] of [
      [[`${registry.host}/team/none:1`], 1, `REGISTRY/team/none:1 cannot be read: ${none}`],
      [["Team/App"], 2, upper],
      [["--pull-secret", "regcred", "nginx"], 2, "--pull-secret regcred: expected namespace/name"],
      [[`${registry.host}/team/app:1`], 1, "REGISTRY/team/app:1 cannot be read: its manifest is no JSON"],
    ] as const) {
      const result = await inspected(registry, ...args);
      expect([result.code, plain(result.stderr, registry.host)]).toEqual([code, `berth: ${says}\n`]);
    }
  });

  it("S-5 asks no host of this machine that is not listed, and tells its user why", async () => {
    await using registry = await startFaultRegistry();
    const { code, stderr } = await cli(["image", "inspect", `${registry.host}/team/app:1`]);
    expect([code, plain(stderr, registry.host)]).toMatchInlineSnapshot(`
      [
        1,
        "berth: REGISTRY/team/app:1 cannot be read: REGISTRY, or a server that it names, cannot be reached. Check that Berth can reach this registry (its log says why not), or configure a mirror of it (REGISTRY is at an address that is connected to only if the host is configured)
      ",
      ]
    `);
    expect(registry.seen).toEqual([]);
  });

  it("S-5 looks up nothing of a registry that is not allowed", async () => {
    await using registry = await startFaultRegistry();
    const allowedRegistries = [`${registry.host}/team`, "*.example"];
    const spec = { registries: [{ registry: registry.host }], allowedRegistries };
    await using folder = await testFolder({ "berth.json": document(spec) });
    registry.index("team/app", "1", ["linux/amd64"]);
    const args = ["image", "inspect", "--config", "berth.json"];
    for (const [path, code, text] of [
      ["team/app:1", exitCodes.done, ""],
      ["team-two/app:1", exitCodes.failed, "not looked up"],
      ["other/app:1", exitCodes.failed, "not looked up"],
    ] as const) {
      const result = await cli([...args, `${registry.host}/${path}`], { folder: folder.path });
      expect([path, result.code, result.stderr]).toEqual([path, code, expect.stringContaining(text)]);
    }
    expect(registry.seen.map(({ repository }) => repository)).toEqual(["team/app"]);
  });

  it("refuses registries that cannot be used, before anything is asked", async () => {
    const listing = (one: object): string => document({ registries: [{ registry: "a.example", ...one }] });
    await using folder = await testFolder({
      "none.json": listing({ certificateAuthority: "ca.pem" }),
      "garbage.json": listing({ certificateAuthority: "none.json" }),
      "name.json": listing({ registry: "a.example:99999" }),
    });
    for (const config of ["none.json", "garbage.json", "name.json"]) {
      const args = ["image", "inspect", "--config", config, "nginx"];
      const { code, stderr } = await cli(args, { folder: folder.path });
      expect([config, code]).toEqual([config, exitCodes.faults]);
      expect(stderr).toContain("a.example");
    }
  });
});
