import { chmod, mkdir, mkdtempDisposable, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { type KubeconfigOptions, loadConfig, loadInCluster, loadKubeconfig } from "./kubeconfig.ts";
import { KubeconfigError } from "./kubeconfig-file.ts";

async function createFolder(files: Readonly<Record<string, string>> = {}) {
  const temporary = await mkdtempDisposable(join(tmpdir(), "berth-kubeconfig-"));
  const at = (name: string): string => join(temporary.path, name);
  const folder = {
    path: temporary.path,
    at,
    /** Writes files, by their path in the folder. */
    async write(contents: Readonly<Record<string, string>>): Promise<void> {
      for (const [name, text] of Object.entries(contents)) {
        await mkdir(dirname(at(name)), { recursive: true });
        await writeFile(at(name), text);
      }
    },
    load: (names: readonly string[], options: Partial<KubeconfigOptions> = {}) =>
      loadKubeconfig(names.map(at), { environment: {}, ...options }),
    [Symbol.asyncDispose]: () => temporary.remove(),
  };
  await folder.write(files);
  return folder;
}

/** What `config` is refused with. */
async function refusal(folder: Awaited<ReturnType<typeof createFolder>>): Promise<string> {
  const failure = await folder.load(["config"]).catch((error: unknown) => error);
  if (failure instanceof KubeconfigError) return failure.message;
  throw new Error("the kubeconfig was not refused as such", { cause: failure });
}

const base64 = (text: string): string => Buffer.from(text).toString("base64");

/** A file with one context `c` of cluster `k` and user `u`, whose fields are given as YAML flow mappings. */
const config = (cluster: string, user = "{}", context = ""): string => `
clusters: [{ name: k, cluster: ${cluster} }]
users: [{ name: u, user: ${user} }]
contexts: [{ name: c, context: { cluster: k, user: u ${context} } }]
current-context: c
`;
const A = "{ server: 'https://a:6443' }";

describe("loadKubeconfig", () => {
  it("resolves the current context, or the one asked for", async () => {
    await using folder = await createFolder({
      config: `
clusters: [{ name: a, cluster: { server: 'https://a' } }, { name: b, cluster: { server: 'https://b/k8s/' } }]
contexts:
- { name: one, context: { cluster: a } }
- { name: two, context: { cluster: b, namespace: there } }
current-context: one`,
    });
    const one = await folder.load(["config"]);
    expect(one.connect).toMatchObject({ server: "https://a" });
    expect(one.namespace).toBeUndefined();
    expect(one.origin).toBe(`context "one" of ${folder.at("config")}`);
    const two = await folder.load(["config"], { context: "two" });
    expect(two.connect.server).toBe("https://b/k8s/");
    expect(two.namespace).toBe("there");
    expect((await folder.load(["config"], { server: "https://c" })).connect.server).toBe("https://c");
  });

  it("merges files: the first to name an entry or a current context wins", async () => {
    await using folder = await createFolder({
      first: "clusters: [{ name: k, cluster: { server: 'https://first' } }]",
      second: config("{ server: 'https://second' }", "{ token: second }", ", namespace: second"),
      third: config("{ server: 'https://third' }", "{ token: third }", ", namespace: third"),
    });
    const merged = await folder.load(["first", "second", "missing", "third"]);
    expect(merged.connect.server).toBe("https://first");
    expect(merged.namespace).toBe("second");
    expect(await merged.connect.credential.material()).toEqual({ authorization: "Bearer second" });
    expect((await folder.load(["third", "second"])).connect.server).toBe("https://third");
  });

  it("prefers data to files, and finds files beside the kubeconfig that names them", async () => {
    await using folder = await createFolder({
      "one/config": config("{ server: 'https://a', certificate-authority: pki/ca.crt }", "{}"),
      "one/pki/ca.crt": "CA from file",
      "two/config": config(
        `{ server: 'https://a', certificate-authority: pki/ca.crt, certificate-authority-data: ${base64("CA")} }`,
        `{ client-certificate-data: ${base64("CERT")}, client-key: u.key }`,
      ),
      "two/u.key": "KEY",
    });
    expect((await folder.load(["one/config"])).connect.ca).toBe("CA from file");
    const { connect } = await folder.load(["two/config"]);
    expect(connect.ca).toBe("CA");
    expect(await connect.credential.material()).toEqual({ certificate: { cert: "CERT", key: "KEY" } });
  });

  it("takes paths of a merged entry from the file that defines it", async () => {
    await using folder = await createFolder({
      "one/config": "users: [{ name: u, user: { tokenFile: token } }]",
      "one/token": "from one",
      "two/config": config(A, "{ tokenFile: token }"),
      "two/token": "from two",
    });
    const { connect } = await folder.load(["one/config", "two/config"]);
    expect(await connect.credential.material()).toEqual({ authorization: "Bearer from one" });
  });

  it.each([
    ["{ token: t }", { authorization: "Bearer t" }],
    ["{ token: t, tokenFile: token }", { authorization: "Bearer from file" }],
    ["{ username: me, password: 'p:w' }", { authorization: `Basic ${base64("me:p:w")}` }],
    [
      `{ token: t, client-certificate-data: ${base64("C")}, client-key-data: ${base64("K")} }`,
      { authorization: "Bearer t", certificate: { cert: "C", key: "K" } },
    ],
    ["{}", {}],
  ])("proves who user %s is", async (user, material) => {
    await using folder = await createFolder({ config: config(A, user), token: "from file\n" });
    const { connect } = await folder.load(["config"]);
    expect(await connect.credential.material()).toEqual(material);
  });

  it("reads a client certificate again when the server refuses the old one", async () => {
    await using folder = await createFolder({
      config: config(A, "{ client-certificate: u.crt, client-key: u.key }"),
      "u.crt": "old",
      "u.key": "K",
    });
    const { credential } = (await folder.load(["config"])).connect;
    const old = await credential.material();
    await folder.write({ "u.crt": "new" });
    expect(await credential.material()).toBe(old);
    credential.reject(old);
    expect(await credential.material()).toEqual({ certificate: { cert: "new", key: "K" } });
  });

  it("sends credentials only where nobody else can read them", async () => {
    await using folder = await createFolder({
      near: config("{ server: 'http://127.0.0.1:8001' }"),
      far: config("{ server: 'http://10.1.2.3' }", "{ token: secret }"),
    });
    expect((await folder.load(["near"])).connect.server).toBe("http://127.0.0.1:8001");
    await expect(folder.load(["far"])).rejects.toThrow(/is not https: credentials would be readable$/);
  });
});

describe("kubeconfig as YAML", () => {
  it("is read as kubectl reads it: yes is true, 0777 is octal, and text fields are text", async () => {
    await using folder = await createFolder({
      config: `
clusters: [{ name: 123, cluster: { server: https://a, insecure-skip-tls-verify: on } }]
users: [{ name: yes, user: { token: 12345678901234567890, username: 0777 } }]
contexts: [{ name: 1:30, context: { cluster: 123, user: on, namespace: 2026-01-01 } }]
current-context: 1:30`,
    });
    const { connect, namespace } = await folder.load(["config"]);
    expect(connect.insecure).toBe(true);
    expect(namespace).toBe("2026-01-01");
    // Digits beyond 2^53 are kept: a token is text, whatever it looks like.
    expect(await connect.credential.material()).toEqual({ authorization: "Bearer 12345678901234567890" });
  });

  it("may be JSON, may be sparse, and may hold what we do not know", async () => {
    await using folder = await createFolder({
      config: JSON.stringify({
        kind: "Config",
        preferences: null,
        clusters: [null, { name: "k", cluster: { server: "https://a", future: [1] } }],
        users: null,
        contexts: [
          { name: "c", context: { cluster: "k", user: "" } },
          { name: "empty", context: null },
        ],
        "current-context": "c",
      }),
    });
    expect((await folder.load(["config"])).connect.server).toBe("https://a");
  });

  it("says where it is broken, without quoting the line", async () => {
    await using folder = await createFolder({
      config: "users:\n- name: u\n  user:\n    token: hunter2: hunter2\n   hunter2: [",
    });
    const message = await refusal(folder);
    expect(message).toMatch(/is not YAML: [A-Z_]+ at line [45], column \d+$/);
    expect(message).not.toContain("hunter2");
  });
});

describe("a kubeconfig", () => {
  it("names its proxy, before that of the program", async () => {
    const proxyFor = ({ host }: URL): string => `http://for.${host}`;
    await using folder = await createFolder({
      own: config("{ server: https://a, proxy-url: 'http://me:pw@own:3128' }"),
      none: config(A),
    });
    expect((await folder.load(["own"], { proxyFor })).connect.proxy).toBe("http://me:pw@own:3128");
    expect((await folder.load(["none"], { proxyFor })).connect.proxy).toBe("http://for.a:6443");
    expect((await folder.load(["none"])).connect.proxy).toBeUndefined();
  });

  it.each([
    ["{ token: t }", undefined],
    ["{ token: t, as: '', as-groups: [] }", undefined],
    ["{ token: t, as: me }", { user: "me", groups: [], extra: {} }],
    [
      "{ token: t, as: me, as-uid: 17, as-groups: [a, b], as-user-extra: { example.com/k: [v] } }",
      { user: "me", uid: "17", groups: ["a", "b"], extra: { "example.com/k": ["v"] } },
    ],
  ])("with the user %s is for %j", async (user, expected) => {
    await using folder = await createFolder({ config: config(A, user) });
    expect((await folder.load(["config"])).connect.impersonate).toEqual(expected);
  });
});

describe("a kubeconfig that cannot be used", () => {
  const exec = (fields: string): string => config(A, `{ exec: { ${fields} } }`);
  const context = (fields: string, clusters = "[]"): string =>
    `clusters: ${clusters}\ncontexts: [{ name: c, context: { ${fields} } }]\ncurrent-context: c`;
  const V1 = "client.authentication.k8s.io/v1";
  const K = `[{ name: k, cluster: ${A} }]`;

  it.each<[string, string, RegExp]>([
    ["is empty", "", /config is empty$/],
    ["names no context", "clusters: []", /names no current-context: choose one with --context$/],
    ["lacks its context", "contexts: [{ name: a }, { name: b }]\ncurrent-context: c", /"c"; it has: a, b$/],
    ["has no contexts", "current-context: c", /has no context "c"; it has: none$/],
    ["has no such cluster", context("cluster: gone"), /refers to cluster "gone", which has no server$/],
    [
      "has no such user",
      context("cluster: k, user: gone", K),
      /refers to user "gone", which does not exist$/,
    ],
    ["has no URL", config("{ server: 'https://[' }"), /server https:\/\/\[ of .* is no URL$/],
    [
      "wants a proxy of another kind",
      config("{ server: https://a, proxy-url: socks5://s3cret@b }"),
      /^cluster "k" of \S+ has a proxy-url that is no http:\/\/ or https:\/\/ URL$/,
    ],
    ["has no CA", config("{ server: https://a, certificate-authority: gone }"), /gone cannot .*: ENOENT$/],
    ["has no token", config(A, "{ tokenFile: gone }"), /^user "u" of .*the token file .*ENOENT$/],
    ["has half a certificate", config(A, "{ client-key-data: S0VZ }"), /or a key without certificate$/],
    ["uses auth-provider", config(A, "{ auth-provider: { name: gcp } }"), /removed auth-provider/],
    ["wants groups of nobody", config(A, "{ as-groups: [g] }"), /without a user \(as\)$/],
    ["wants a user of two lines", config(A, '{ as: "a\\nb" }'), /what no HTTP header can hold$/],
    ["wants no list of groups", config(A, "{ as: a, as-groups: g }"), /that holds no lists$/],
    ["has an exec without a command", exec(`apiVersion: ${V1}`), /without a command$/],
    ["has an exec without a version", exec("command: x"), /has an exec with no apiVersion; use client.auth/],
    ["has an exec of old", exec(`command: x, apiVersion: ${V1}alpha1`), /the apiVersion .*alpha1; use/],
  ])("one that %s is explained", async (_, text, message) => {
    await using folder = await createFolder({ config: text });
    expect(await refusal(folder)).toMatch(message);
  });

  it("one that is not there, alone or of a list, is named", async () => {
    await using folder = await createFolder();
    await expect(folder.load(["gone"])).rejects.toThrow(`there is no kubeconfig ${folder.at("gone")}`);
    await expect(folder.load(["a", "b"])).rejects.toThrow(/^none of the kubeconfig files exists: .*a, .*b$/);
    await expect(folder.load(["."])).rejects.toThrow(/cannot be read: EISDIR$/);
  });
});

describe("T-16 an exec plugin of a kubeconfig", () => {
  it("is found beside the file, and told about the cluster with what the cluster has for it", async () => {
    await using folder = await createFolder({
      "sub/config": `
clusters:
- name: k
  cluster:
    server: https://a
    tls-server-name: b
    certificate-authority-data: ${base64("CA")}
    extensions:
    - { name: other, extension: 1 }
    - { name: client.authentication.k8s.io/exec, extension: { audience: x, port: 443 } }
users:
- name: u
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: bin/plugin
      args: [1, yes]
      env: [{ name: REGION, value: oslo }]
      provideClusterInfo: true
contexts: [{ name: c, context: { cluster: k, user: u } }]
current-context: c`,
    });
    const info = folder.at("info");
    await folder.write({
      "sub/bin/plugin": `#!/bin/sh
printf '%s' "$KUBERNETES_EXEC_INFO" > '${info}'
echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"'"$1-$2-$SEEN-$REGION"'"}}'
`,
    });
    await chmod(folder.at("sub/bin/plugin"), 0o755);
    const { connect } = await folder.load(["sub/config"], {
      environment: { PATH: "/usr/bin:/bin", SEEN: "seen" },
    });
    expect(await connect.credential.material()).toEqual({ authorization: "Bearer 1-true-seen-oslo" });
    expect(JSON.parse(await readFile(info, "utf8"))).toMatchObject({
      spec: {
        cluster: {
          server: "https://a",
          "tls-server-name": "b",
          "certificate-authority-data": base64("CA"),
          config: { audience: "x", port: 443 },
        },
      },
    });
  });
});

describe("loadConfig", () => {
  const kubeconfig = (context: string): string =>
    JSON.stringify({
      clusters: [{ name: context, cluster: { server: `https://${context}.test` } }],
      users: [{ name: context, user: { token: "t" } }],
      contexts: [{ name: context, context: { cluster: context, user: context } }],
      "current-context": context,
    });

  it("takes the files of KUBECONFIG, and that of the home folder where it is empty", async () => {
    await using home = await mkdtempDisposable(join(tmpdir(), "berth-home-"));
    await mkdir(join(home.path, ".kube"));
    const at = (name: string): string => join(home.path, name);
    for (const [name, context] of [
      ["one", "one"],
      ["two", "two"],
      [".kube/config", "own"],
    ] as const)
      await writeFile(at(name), kubeconfig(context));
    const serverOf = async (environment: Readonly<Record<string, string>>): Promise<string> =>
      (await loadConfig({ HOME: home.path, ...environment })).connect.server;
    expect(
      await serverOf({ KUBECONFIG: `${at("absent")}${delimiter}${at("two")}${delimiter}${at("one")}` }),
    ).toBe("https://two.test");
    for (const environment of [{ KUBECONFIG: "" }, {}])
      expect(await serverOf(environment)).toBe("https://own.test");
    await expect(loadConfig({ HOME: at("empty") })).rejects.toThrow(
      `there is no kubeconfig ${at("empty/.kube/config")}`,
    );
  });
});

describe("loadInCluster", () => {
  const environment = { KUBERNETES_SERVICE_HOST: "10.0.0.1", KUBERNETES_SERVICE_PORT: "443" };
  const account = { "ca.crt": "CA", token: "one\n", namespace: "mine\n" };

  it("uses the service account that kubelet mounts, and its token as it rotates", async () => {
    await using folder = await createFolder(account);
    const found = await loadInCluster(environment, folder.path);
    expect(found).toMatchObject({ namespace: "mine", connect: { server: "https://10.0.0.1:443", ca: "CA" } });
    const credential = found?.connect.credential;
    const one = await credential?.material();
    expect(one).toEqual({ authorization: "Bearer one" });
    await folder.write({ token: "two" });
    credential?.reject(one ?? {});
    expect(await credential?.material()).toEqual({ authorization: "Bearer two" });
  });

  it("writes an IPv6 address as a URL wants it", async () => {
    await using folder = await createFolder(account);
    const found = await loadInCluster({ ...environment, KUBERNETES_SERVICE_HOST: "fd00::1" }, folder.path);
    expect(found?.connect.server).toBe("https://[fd00::1]:443");
  });

  it("is not in a cluster without the two variables or without the mounted CA", async () => {
    await using folder = await createFolder(account);
    expect(await loadInCluster({}, folder.path)).toBeUndefined();
    expect(await loadInCluster({ KUBERNETES_SERVICE_HOST: "10.0.0.1" }, folder.path)).toBeUndefined();
    await rm(folder.at("ca.crt"));
    expect(await loadInCluster(environment, folder.path)).toBeUndefined();
  });
});
