/** Which credentials a pod has for its images, read from a real API server. */
import { access } from "node:fs/promises";
import {
  type KubeClient,
  namespaces,
  roleBindings,
  roles,
  type Secret,
  secrets,
  serviceAccounts,
} from "@berth/kube";
import type { ImageAccess } from "@berth/placement";
import { PullCredentials, type PullCredentialsOptions } from "@berth/placement";
import { parseReference } from "@berth/registry";
import { createVirtualClock, type VirtualClock } from "@berth/runtime";
import { eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { programFolder } from "../../../registry/src/testing/programs.ts";
import { testFolder } from "../testing/harness.ts";

const IMAGE = parseReference("registry.example/team/app:1");
const PASSWORD = "correct-horse-battery";
let cluster: TestCluster;
let namespaceCount = 0;

beforeAll(async () => {
  cluster = await sharedTestCluster();
});

interface World extends AsyncDisposable {
  readonly namespace: string;
  readonly client: KubeClient;
  readonly clock: VirtualClock;
  /** Requests to the API server since the last time. */
  requests(): number;
  credentialsWith(options?: Omit<PullCredentialsOptions, "client" | "clock">): PullCredentials;
  access(secretNames?: readonly string[], serviceAccount?: string): ImageAccess;
}

async function aWorld(options: { readonly user?: string } = {}): Promise<World> {
  const namespace = `pull-${++namespaceCount}`;
  await cluster.client.create(namespaces, { metadata: { name: namespace } });
  let answered = 0;
  const client = cluster.connect({
    ...(options.user && { user: await cluster.user(options.user) }),
    onAnswer: () => void (answered += 1),
  });
  const clock = createVirtualClock();
  return {
    namespace,
    client,
    clock,
    requests() {
      const count = answered;
      answered = 0;
      return count;
    },
    credentialsWith: (more = {}) => new PullCredentials({ client, clock, ...more }),
    access: (names = [], serviceAccount = "default") => ({ namespace, serviceAccount, secrets: names }),
    [Symbol.asyncDispose]: () => client.close(),
  };
}

const auths = (entries: Readonly<Record<string, string>>): object =>
  Object.fromEntries(
    Object.entries(entries).map(([host, user]) => [host, { auth: base64(`${user}:${PASSWORD}`) }]),
  );

function base64(value: unknown): string {
  return Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64");
}

async function put(namespace: string, name: string, type: string, data: object): Promise<void> {
  await cluster.client.create(secrets, { metadata: { name, namespace }, type, data } as Secret, {
    namespace,
  });
}

async function putDockerConfig(
  namespace: string,
  name: string,
  hosts: Record<string, string>,
): Promise<void> {
  const data = { ".dockerconfigjson": base64({ auths: auths(hosts) }) };
  await put(namespace, name, "kubernetes.io/dockerconfigjson", data);
}

const users = async (found: ReturnType<PullCredentials["find"]>): Promise<readonly (string | undefined)[]> =>
  (await found).credentials.map(({ username }) => username);

describe("credentials of a pod", () => {
  it("A-B4 are those of the pull secrets it names, of both types, the most specific first", async () => {
    await using world = await aWorld();
    const { namespace } = world;
    await putDockerConfig(namespace, "one", { "registry.example": "all", "other.example": "stranger" });
    const data = { ".dockercfg": base64(auths({ "registry.example/team": "team" })) };
    await put(namespace, "two", "kubernetes.io/dockercfg", data);
    const found = await world.credentialsWith().find(world.access(["one", "two", "one"]), IMAGE);
    const credentials = ["team", "all"].map((username) => ({ username, password: PASSWORD }));
    expect(found).toEqual({ credentials, problems: [], commonProblems: [], failedPrograms: [] });
  });

  it("A-B4 are those of its service account when it names none", async () => {
    await using world = await aWorld();
    const { namespace } = world;
    await putDockerConfig(namespace, "of-account", { "*.example": "account" });
    await putDockerConfig(namespace, "of-pod", { "*.example": "pod" });
    const account = { metadata: { name: "puller", namespace }, imagePullSecrets: [{ name: "of-account" }] };
    await cluster.client.create(serviceAccounts, account, { namespace });
    const credentials = world.credentialsWith();
    expect(await users(credentials.find(world.access([], "puller"), IMAGE))).toEqual(["account"]);
    expect(await users(credentials.find(world.access(["of-pod"], "puller"), IMAGE))).toEqual(["pod"]);
  });

  it("are followed by those of the docker config for all pods", async () => {
    await using world = await aWorld();
    const config = { auths: auths({ "registry.example/team/app": "node" }) };
    await using folder = await testFolder({ "config.json": JSON.stringify(config) });
    await putDockerConfig(world.namespace, "one", { "registry.example": "pod" });
    const credentials = world.credentialsWith({ dockerConfig: `${folder.path}/config.json` });
    expect(await users(credentials.find(world.access(["one"]), IMAGE))).toEqual(["pod", "node"]);
    await folder.write("config.json", "garbage");
    expect(await credentials.find(world.access(["one"]), IMAGE)).toMatchObject({
      credentials: [{ username: "pod" }],
      problems: [],
      commonProblems: [expect.any(String)],
    });
  });

  it("may come from programs, which only the docker config for all pods can name", async () => {
    await using world = await aWorld();
    const { namespace } = world;
    const answer = `echo '{"Username":"helped","Secret":"${PASSWORD}"}'`;
    await using programs = await programFolder({
      "docker-credential-corp": answer,
      "docker-credential-evil": `touch ran; ${answer}`,
    });
    const config = JSON.stringify({ credHelpers: { "registry.example": "corp" } });
    await using folder = await testFolder({ "config.json": config });
    const dockerConfig = `${folder.path}/config.json`;
    const data = { ".dockerconfigjson": base64({ credHelpers: { "registry.example": "evil" } }) };
    await put(namespace, "evil", "kubernetes.io/dockerconfigjson", data);
    const credentialPlugins = {
      folder: programs.path,
      providers: [],
      environment: { PATH: "/usr/bin:/bin" },
    };
    using credentials = world.credentialsWith({ dockerConfig, credentialPlugins });
    const found = await credentials.find(world.access(["evil"]), IMAGE);
    expect(found).toEqual({
      credentials: [{ username: "helped", password: PASSWORD }],
      problems: [],
      commonProblems: [],
      failedPrograms: [],
    });
    await expect(access(`${programs.path}/ran`)).rejects.toThrow("ENOENT");
    using without = world.credentialsWith({ dockerConfig });
    expect(await without.find(world.access(["evil"]), IMAGE)).toMatchObject({
      credentials: [],
      commonProblems: [expect.stringContaining("its credHelpers are not run: set credentialPlugins")],
    });
  });

  it("are told to be missing, wrong or unreadable, and the others count", async () => {
    await using world = await aWorld();
    const { namespace } = world;
    await putDockerConfig(namespace, "good", { "registry.example": "good" });
    await put(namespace, "opaque", "Opaque", { password: base64(PASSWORD) });
    const broken = base64({ auths: { "registry.example": { auth: base64(PASSWORD) } } });
    await put(namespace, "broken", "kubernetes.io/dockerconfigjson", { ".dockerconfigjson": broken });
    const names = ["missing", "opaque", "broken", "../secrets/good", "good"];
    const found = await world.credentialsWith().find(world.access(names), IMAGE);
    expect(found.credentials).toEqual([{ username: "good", password: PASSWORD }]);
    expect(found.problems).toEqual([
      `the pull secret ${namespace}/missing does not exist`,
      `the pull secret ${namespace}/opaque is of the type Opaque, which holds no docker config`,
      `the pull secret ${namespace}/broken: the entry for registry.example of the docker config has an auth that is not the base64 of user:password: it is not used`,
      "a name of a pull secret is not valid",
    ]);
    expect(JSON.stringify(found.problems)).not.toContain(PASSWORD);
    expect(JSON.stringify(found.problems)).not.toContain(base64(PASSWORD));
    const account = await world.credentialsWith().find(world.access([], "nobody"), IMAGE);
    expect(account.problems).toEqual([`the service account ${namespace}/nobody does not exist`]);
  });

  it("may be forbidden to read, and are not asked for then; the right to get these objects is enough", async () => {
    await using world = await aWorld({ user: "berth-pull" });
    const { clock, namespace } = world;
    await putDockerConfig(namespace, "one", { "registry.example": "pod" });
    const credentials = world.credentialsWith();
    const mark = await cluster.audit.mark();
    for (const [names, what] of [
      [["one"], `the pull secret ${namespace}/one cannot be read: Berth lacks the permission to get secrets`],
      [
        [],
        `the service account ${namespace}/default cannot be read: Berth lacks the permission to get serviceaccounts`,
      ],
    ] as const)
      expect(await credentials.find(world.access(names), IMAGE)).toMatchObject({
        credentials: [],
        problems: [`${what} there`],
      });
    expect(await cluster.audit.entriesSince(mark, { code: 403 })).toEqual([]);
    world.requests();
    await credentials.find(world.access(["one"]), IMAGE);
    expect(world.requests()).toBe(0);
    const metadata = { name: "puller", namespace };
    const resourceNames = ["one", "nobody"];
    const rules = [
      { apiGroups: [""], resources: ["secrets", "serviceaccounts"], resourceNames, verbs: ["get"] },
    ];
    await cluster.client.create(roles, { metadata, rules }, { namespace });
    const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "puller" };
    const subjects = [{ kind: "User", name: "berth-pull", apiGroup: "rbac.authorization.k8s.io" }];
    await cluster.client.create(roleBindings, { metadata, roleRef, subjects }, { namespace });
    await eventually(async () => {
      await clock.advance(10_000);
      expect(await users(credentials.find(world.access(["one"]), IMAGE))).toEqual(["pod"]);
    });
    const found = await world.credentialsWith().find(world.access([], "nobody"), IMAGE);
    expect(found.problems).toEqual([`the service account ${namespace}/nobody does not exist`]);
  });

  it("are read once a minute, however often and at once they are asked for", async () => {
    await using world = await aWorld();
    const { clock, namespace } = world;
    await putDockerConfig(namespace, "one", { "registry.example": "first" });
    const credentials = world.credentialsWith();
    const find = (): ReturnType<typeof users> => users(credentials.find(world.access(["one"]), IMAGE));
    world.requests();
    await Promise.all(Array.from({ length: 50 }, find));
    // One more asks whether it may.
    expect(world.requests()).toBe(2);
    await cluster.client.delete(secrets, { namespace, name: "one" });
    await putDockerConfig(namespace, "one", { "registry.example": "second" });
    await clock.advance(59_999);
    expect(await find()).toEqual(["first"]);
    expect(world.requests()).toBe(0);
    await clock.advance(1);
    expect(await find()).toEqual(["second"]);
    expect(world.requests()).toBe(2);
  });

  it("that cannot be read because the API server is away are asked for again at once", async () => {
    await using world = await aWorld();
    await using away = await aWorld();
    await putDockerConfig(world.namespace, "one", { "registry.example": "pod" });
    await away.client.close();
    const credentials = away.credentialsWith();
    const found = await credentials.find(world.access(["one"]), IMAGE);
    expect(found.problems).toEqual([`the pull secret ${world.namespace}/one could not be read (aborted)`]);
    expect(await credentials.find(world.access(["one"]), IMAGE)).toEqual(found);
  });
});
