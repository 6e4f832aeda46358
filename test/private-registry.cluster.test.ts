/**
 * The registry of a company, as a black box: it wants a login that only a credential plugin has, and only a proxy finds it.
 * The passwords are in nothing that Berth says.
 */
import {
  anImage,
  eventually,
  REGISTRY_USER,
  startForwardProxy,
  startRegistry,
  type TestCluster,
} from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { printing, programFolder } from "../packages/registry/src/testing/programs.ts";
import { type ArchitectureFixture, createArchitectureFixture } from "./architecture-fixture.ts";
import { addNode, running } from "./architecture-live.ts";
import { sharedFullCluster } from "./footprint-cluster.ts";
import { patiently } from "./patience.ts";

const HOST = "registry.corp.example";
const { name: username, password } = REGISTRY_USER;
const PROXY_USER = { name: "berth", password: "proxy-horse-battery" };
const PLANTED = [password, PROXY_USER.password, "plugin-token-staple", "wrong-horse-battery"].flatMap(
  (text) => [text, Buffer.from(text).toString("base64")],
);

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedFullCluster();
});

/** All that the API server tells of what Berth writes to, as it sends it. */
async function allTexts({ cluster: { client }, name }: ArchitectureFixture): Promise<string> {
  const paths = [
    "/api/v1/nodes",
    "/api/v1/events",
    "/api/v1/configmaps",
    `/api/v1/namespaces/${name}/pods`,
    "/apis/berth.dev/v1alpha1/architecturepolicies",
    "/apis/coordination.k8s.io/v1/leases",
  ];
  const texts = await Promise.all(paths.map((it) => client.read(it)));
  return texts.join("\n");
}

describe("a registry that wants a login and is behind a proxy", () => {
  it("is read with a credential plugin, and pods run where their images do", async () => {
    await using registry = await startRegistry({ tls: true, names: [HOST], users: [REGISTRY_USER] });
    await registry.push(anImage("team/app:1").platforms("linux/arm64"));
    await registry.push(anImage("closed/app:1").platforms("linux/arm64"));
    const hosts = { [`${HOST}:443`]: registry.host };
    await using proxy = await startForwardProxy({ hosts, user: PROXY_USER });
    const auth = {
      [`${HOST}/team`]: { username, password },
      [`${HOST}/closed`]: { username, password: "wrong-horse-battery" },
    };
    await using programs = await programFolder({
      "corp-credentials": `test "$TOKEN" = plugin-token-staple || exit 1
echo "debug: ${password}" >&2
${printing({ auth, cacheKeyType: "Registry", cacheDuration: "1h" })}`,
      "broken-credentials": `echo "$TOKEN ${password}"`,
    });
    await using fixture = await createArchitectureFixture(cluster, "private-registry");
    const ca = await fixture.file("ca.pem", registry.ca ?? "");
    const provider = (name: string, place: string): object => ({
      name,
      apiVersion: "credentialprovider.kubelet.k8s.io/v1",
      matchImages: [place],
      defaultCacheDuration: "0s",
    });
    const config = await fixture.file(
      "credential-providers.yaml",
      JSON.stringify({
        apiVersion: "kubelet.config.k8s.io/v1",
        kind: "CredentialProviderConfig",
        providers: [
          provider("corp-credentials", "*.corp.example"),
          // What it fails for is not refused for good.
          provider("broken-credentials", `${HOST}/team`),
        ],
      }),
    );
    const spec = {
      registries: [{ registry: HOST, certificateAuthority: ca.path }],
      credentialPlugins: {
        folder: programs.path,
        config: config.path,
        environment: ["TOKEN", "PATH", "REGION"],
      },
    };
    const documents = [{ kind: "ImageRegistries", spec }];
    const environment = {
      TOKEN: "plugin-token-staple",
      PATH: "/usr/bin:/bin",
      HTTPS_PROXY: proxy.url,
    };
    await fixture.policy("all", { mode: "Taint", maxHold: "5m", afterMaxHold: "Keep", impossible: "Hold" });
    for (const architecture of ["amd64", "arm64"]) await addNode(fixture, architecture);
    const berth = await fixture.spawn({ documents, environment, args: ["--log-level", "debug"] });
    await patiently(() => berth.ready());
    for (const architecture of ["amd64", "arm64"]) await fixture.tainted(architecture, [architecture]);
    await fixture.create(fixture.pod("open").image(`${HOST}/team/app:1`));
    await fixture.create(fixture.pod("closed").image(`${HOST}/closed/app:1`));
    expect(await running(fixture, "open")).toBe("arm64");
    await eventually(async () => expect(await fixture.podEvents()).toContain("RegistryUnauthorized"));

    expect(new Set(proxy.requests)).toEqual(new Set([`CONNECT ${HOST}:443`]));
    expect(berth.log).toContainEqual(
      expect.objectContaining({
        msg: "credential plugins are used",
        providers: ["corp-credentials", "broken-credentials"],
        variablesNotSet: ["REGION"],
      }),
    );
    const problem = berth.log.filter(
      (entry) => entry.level === "warn" && JSON.stringify(entry).includes("broken-credentials"),
    );
    expect(problem).toEqual([
      expect.objectContaining({
        level: "warn",
        problem: "the credential provider broken-credentials answers with what is no JSON",
      }),
    ]);
    const said = [berth.output, JSON.stringify(berth.log), await allTexts(fixture)].join("\n");
    expect(said).toContain(`${HOST}/closed/app:1`);
    for (const planted of PLANTED) expect(said).not.toContain(planted);
  });
});
