/** The library of images beside a real API server: what is asked, what is kept, and what is never told. */
import { type ConfigMap, configMaps, type KubeClient, namespaces, secrets } from "@berth/kube";
import {
  createImageLibrary,
  IMAGE_FACTS_FIELD,
  IMAGE_FACTS_LABEL,
  type ImageKnowledge,
  type ImageLibrary,
  type ImageQuestion,
  type RegistrySettings,
} from "@berth/placement";
import {
  type Clock,
  clusterName,
  createJsonLogger,
  createMetricsRegistry,
  createVirtualClock,
  Manager,
  type MetricsRegistry,
  systemClock,
} from "@berth/runtime";
import { eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { type FaultRegistry, startFaultRegistry } from "../../../registry/src/testing/fault-registry.ts";
import { programFolder } from "../../../registry/src/testing/programs.ts";
import { listing } from "../testing/registries.ts";

const PASSWORD = "correct-horse-battery";
let cluster: TestCluster;
let namespaceCount = 0;

beforeAll(async () => {
  cluster = await sharedTestCluster();
});

async function aNamespace(): Promise<string> {
  const name = `images-${++namespaceCount}`;
  await cluster.client.create(namespaces, { metadata: { name } });
  return name;
}

interface Replica extends AsyncDisposable {
  readonly library: ImageLibrary;
  readonly metrics: MetricsRegistry;
  /** All that was logged. */
  readonly lines: readonly string[];
  /** As `look` has it once it is known or has failed. */
  known(question: ImageQuestion): Promise<ImageKnowledge>;
  /** In order, with what is unsaved being saved. */
  stop(): Promise<void>;
}

interface ReplicaOptions {
  readonly namespace?: string;
  readonly client?: KubeClient;
  readonly leads?: boolean;
  readonly clock?: Clock;
  /** That its configuration lists. */
  readonly registries?: readonly FaultRegistry[];
  readonly allowedRegistries?: readonly string[];
  readonly credentialPlugins?: RegistrySettings["credentialPlugins"];
}

/** A process of Berth, as far as images go. */
async function startReplica({
  namespace,
  client = cluster.client,
  leads = true,
  clock = systemClock,
  registries = [],
  allowedRegistries,
  credentialPlugins,
}: ReplicaOptions): Promise<Replica> {
  const lines: string[] = [];
  const log = createJsonLogger({ level: "debug", destination: { write: (line) => void lines.push(line) } });
  const metrics = createMetricsRegistry();
  const library = createImageLibrary({
    client,
    cluster: clusterName("test"),
    installation: "berth",
    userAgent: "berth/test",
    ...(namespace !== undefined && { namespace }),
    registries: {
      ...(await listing(...registries)),
      ...(allowedRegistries && { allowedRegistries }),
      ...(credentialPlugins && { credentialPlugins }),
    },
    clock,
    log,
    metrics,
  });
  const manager = new Manager({
    always: [library.always],
    elected: leads ? library.elected : [],
    clock: systemClock,
    log,
    // What is unsaved is to be saved, however long the machine stands still.
    stopLimitMs: 60_000,
    drainLimitMs: 30_000,
  });
  const stopping = new AbortController();
  const ended = manager.run(stopping.signal);
  const stop = async (): Promise<void> => {
    stopping.abort();
    await ended;
  };
  return {
    library,
    metrics,
    lines,
    stop,
    async known(question) {
      const found = Promise.withResolvers<ImageKnowledge>();
      const check = (): void => {
        const knowledge = library.look(question);
        if (knowledge.state !== "unknown") found.resolve(knowledge);
      };
      using _told = library.subscribe(check);
      library.want(question);
      check();
      return await found.promise;
    },
    [Symbol.asyncDispose]: stop,
  };
}

function ask(image: string, more: Partial<ImageQuestion["access"]> = {}): ImageQuestion {
  const access = { namespace: "default", serviceAccount: "default", secrets: [], ...more };
  return { image, pull: "IfNotPresent", access };
}

async function keptIn(namespace: string): Promise<readonly ConfigMap[]> {
  const labelSelector = `${IMAGE_FACTS_LABEL}=berth`;
  return (await cluster.client.list(configMaps, { namespace, labelSelector })).items;
}

async function factsIn(namespace: string): Promise<string> {
  return (await keptIn(namespace)).map(({ data }) => data?.[IMAGE_FACTS_FIELD] ?? "").join("");
}

const on = (architecture: string, more: object = {}): object => ({ os: "linux", architecture, ...more });

function asked({ requests }: FaultRegistry): number {
  return Object.values(requests).reduce((sum, count) => sum + count, 0);
}

describe("the library of images", () => {
  it("A-B5 asks for each image once, however often it is wanted, and a restart asks nothing", async () => {
    await using registry = await startFaultRegistry();
    const namespace = await aNamespace();
    const platforms = ["linux/amd64", "linux/arm64", "linux/arm/v7"];
    const digests = Array.from({ length: 5 }, (_, at) => registry.index(`team/app-${at}`, "1", platforms));
    const questions = digests.flatMap((digest, at) => [
      ask(`${registry.host}/team/app-${at}:1`),
      ask(`${registry.host}/team/app-${at}@${digest}`, { serviceAccount: "other" }),
    ]);
    await using first = await startReplica({ registries: [registry], namespace });
    for (let repeat = 0; repeat < 100; repeat++) for (const one of questions) first.library.want(one);
    const before = await Promise.all(questions.map((one) => first.known(one)));
    // A digest and its tag may be asked for at the same moment; neither is asked for twice.
    expect(registry.requests.manifest).toBeLessThanOrEqual(questions.length);
    expect(before[0]).toEqual({
      state: "known",
      name: `${registry.host}/team/app-0:1`,
      digest: digests[0],
      platforms: [on("amd64"), on("arm64"), on("arm", { variant: "v7" })],
    });
    await first.stop();
    expect((await factsIn(namespace)).split("\n").filter((line) => line !== "")).toHaveLength(10);

    registry.forget();
    await using second = await startReplica({ registries: [registry], namespace });
    expect(await Promise.all(questions.map((one) => second.known(one)))).toEqual(before);
    expect(asked(registry)).toBe(0);
  });

  it("gives other replicas what the leader has found, 30 s later", async () => {
    await using registry = await startFaultRegistry();
    const namespace = await aNamespace();
    registry.image("team/app", "1", "linux/s390x");
    const question = ask(`${registry.host}/team/app:1`);
    const clock = createVirtualClock(Date.now());
    await using leader = await startReplica({ registries: [registry], namespace, clock });
    await using follower = await startReplica({ registries: [registry], namespace, leads: false });
    follower.library.wake();
    await leader.known(question);
    const heard: string[] = [];
    using _told = follower.library.subscribe((name) => void heard.push(name));
    expect(follower.library.look(question).state).toBe("unknown");
    await eventually(async () => {
      await clock.advance(5000);
      expect(follower.library.look(question)).toMatchObject({ state: "known", platforms: [on("s390x")] });
    });
    expect(heard).toContain(`${registry.host}/team/app:1`);
    expect(registry.requests).toMatchObject({ manifest: 1, head: 0, blob: 1 });
    // Nothing is written again without something new.
    const kept = await keptIn(namespace);
    await clock.advance(3_600_000);
    expect(await keptIn(namespace)).toEqual(kept);
  });

  it("saves that tags have not moved every 10 minutes, however many are looked at again in between", async () => {
    await using registry = await startFaultRegistry();
    const namespace = await aNamespace();
    const questions = Array.from({ length: 5 }, (_, at): ImageQuestion => {
      registry.index(`team/app-${at}`, "1", ["linux/amd64"]);
      return { ...ask(`${registry.host}/team/app-${at}:1`), pull: "Always" };
    });
    const clock = createVirtualClock(Date.now());
    await using leader = await startReplica({ registries: [registry], namespace, clock });
    await Promise.all(questions.map((question) => leader.known(question)));
    const versions = new Set<string>();
    const lookAt = async (): Promise<void> => {
      for (const { metadata } of await keptIn(namespace)) versions.add(metadata?.resourceVersion ?? "");
    };
    await eventually(async () => {
      await clock.advance(10_000);
      await lookAt();
      expect(versions.size).toBe(1);
    });
    registry.forget();
    for (let minute = 0; minute < 40; minute += 1) {
      await clock.advance(60_000);
      const question = questions[minute % questions.length];
      if (question !== undefined) await leader.known(question);
      await clock.advance(1);
      await lookAt();
    }
    expect(registry.requests.head).toBeGreaterThanOrEqual(30);
    expect(versions.size).toBeGreaterThanOrEqual(3);
    expect(versions.size).toBeLessThanOrEqual(5);
  });

  it("ignores garbage in its ConfigMaps, and writes over it", async () => {
    await using registry = await startFaultRegistry();
    const namespace = await aNamespace();
    const digest = registry.image("team/app", "1", "linux/arm64");
    const good = {
      name: "ghcr.io/kept/app:1",
      digest,
      mediaType: "application/vnd.oci.image.index.v1+json",
      at: Date.now() - 1000,
      platforms: [["linux", "riscv64"]],
    };
    const bad = { ...good, name: "not a name", digest: "sha256:short" };
    const text = `garbage\n${JSON.stringify(bad)}\n${JSON.stringify(good)}\n`;
    const metadata = { name: "berth-image-facts-0", namespace, labels: { [IMAGE_FACTS_LABEL]: "berth" } };
    const written = { metadata, data: { [IMAGE_FACTS_FIELD]: text } };
    await cluster.client.create(configMaps, written, { namespace });
    await using replica = await startReplica({ registries: [registry], namespace });
    expect(await replica.known(ask("ghcr.io/kept/app:1"))).toMatchObject({ platforms: [on("riscv64")] });
    await replica.known(ask(`${registry.host}/team/app:1`));
    await replica.stop();
    const kept = await factsIn(namespace);
    expect(kept).toContain('"ghcr.io/kept/app:1"');
    expect(kept).toContain(`${registry.host}/team/app:1`);
    expect(kept).not.toContain("garbage");
  });

  it("goes on in memory without the right to read ConfigMaps, and writes none", async () => {
    await using registry = await startFaultRegistry();
    const namespace = await aNamespace();
    registry.image("team/app", "1", "linux/arm64");
    await using client = cluster.connect({ user: await cluster.user("berth-without-rights") });
    await using replica = await startReplica({ registries: [registry], namespace, client });
    expect(await replica.known(ask(`${registry.host}/team/app:1`))).toMatchObject({ state: "known" });
    await replica.stop();
    expect(await factsIn(namespace)).toBe("");
  });

  it("watches nothing before it is needed", async () => {
    const namespace = await aNamespace();
    let requests = 0;
    await using client = cluster.connect({ onAnswer: () => void (requests += 1) });
    await using replica = await startReplica({ namespace, client });
    replica.library.look(ask("nginx"));
    await replica.stop();
    expect(requests).toBe(0);
  });

  it("A-B4 reads private images with the pull secret of the pod, and tells nobody of it", async () => {
    await using registry = await startFaultRegistry({ auth: { scheme: "token", users: { team: PASSWORD } } });
    const namespace = await aNamespace();
    registry.image("team/private", "1", "linux/arm64");
    const auth = Buffer.from(`team:${PASSWORD}`).toString("base64");
    const config = JSON.stringify({ auths: { [registry.host]: { auth } } });
    const data = { ".dockerconfigjson": Buffer.from(config).toString("base64") };
    const secret = { metadata: { name: "regcred", namespace }, type: "kubernetes.io/dockerconfigjson", data };
    await cluster.client.create(secrets, secret, { namespace });
    const image = `${registry.host}/team/private:1`;
    await using replica = await startReplica({ registries: [registry], namespace });
    const without = await replica.known(ask(image, { namespace, secrets: ["missing"] }));
    expect(without).toMatchObject({
      state: "failed",
      reason: "PullSecretUnreadable",
      message: expect.stringContaining(`the pull secret ${namespace}/missing does not exist`),
    });
    const own = { namespace, secrets: ["regcred"] };
    expect(await replica.known(ask(image, own))).toMatchObject({ state: "known", platforms: [on("arm64")] });
    registry.protect({ scheme: "token", users: { team: "another" } });
    registry.image("team/other", "1", "linux/arm64");
    const refused = await replica.known(ask(`${registry.host}/team/other:1`, own));
    expect(refused).toMatchObject({ state: "failed", reason: "RegistryUnauthorized" });
    await replica.stop();

    const { body } = await replica.metrics.expose();
    const said = `${replica.lines.join()} ${body} ${JSON.stringify([without, refused])} ${await factsIn(namespace)}`;
    const tokens = registry.seen.flatMap(({ authorization = "" }) => authorization.split(" ")[1] ?? []);
    expect(tokens.length).toBeGreaterThan(0);
    for (const secret of [PASSWORD, auth, ...tokens]) expect(said).not.toContain(secret);
    // Nor are images and registries labels of metrics, for tenants name them.
    expect(body).toMatch(/berth_registry_requests_total\{kind="manifest",code="200"\} \d/);
    expect(body).not.toContain(registry.host);
    expect(body).not.toContain("team/private");
  });

  it("takes no refusal for the last word while a credential plugin fails, and says which one", async () => {
    await using registry = await startFaultRegistry({ auth: { scheme: "token", users: { team: PASSWORD } } });
    registry.image("team/private", "1", "linux/arm64");
    await using programs = await programFolder({ ecr: "exit 7" });
    const credentialPlugins = {
      folder: programs.path,
      environment: {},
      providers: [
        {
          name: "ecr",
          apiVersion: "credentialprovider.kubelet.k8s.io/v1",
          matchImages: [`${registry.host}/team`],
          defaultCacheMs: 0,
          args: [],
          env: {},
        },
      ],
    };
    await using replica = await startReplica({ registries: [registry], credentialPlugins });
    expect(await replica.known(ask(`${registry.host}/team/private:1`))).toMatchObject({
      state: "failed",
      reason: "CredentialProviderFailed",
      message: expect.stringContaining("the credential provider ecr failed (exit code 7)"),
    });
    registry.image("other/private", "1", "linux/arm64");
    expect(await replica.known(ask(`${registry.host}/other/private:1`))).toMatchObject({
      reason: "PullSecretUnreadable",
      message: expect.not.stringContaining("exit code"),
    });
  });

  it("S-5 looks up nothing of a registry that is not allowed, not even its secrets, and says so", async () => {
    await using registry = await startFaultRegistry();
    registry.image("team/app", "1", "linux/arm64");
    let requests = 0;
    await using client = cluster.connect({ onAnswer: () => void (requests += 1) });
    const allowedRegistries = ["*.example", `${registry.host}/other`];
    await using replica = await startReplica({ registries: [registry], allowedRegistries, client });
    const question = ask(`${registry.host}/team/app:1`);
    replica.library.want(question);
    expect(replica.library.look(question)).toMatchObject({
      state: "failed",
      reason: "RegistryNotAllowed",
      message: expect.stringContaining("added to allowedRegistries"),
    });
    await replica.stop();
    expect([requests, asked(registry)]).toEqual([0, 0]);
  });

  it("S-5 logs why a host was not reached, and tells tenants only that it was not", async () => {
    await using registry = await startFaultRegistry();
    await using replica = await startReplica({});
    const failed = await replica.known(ask(`${registry.host}/team/app:1`));
    expect(failed).toMatchObject({ state: "failed", reason: "RegistryUnreachable" });
    expect(JSON.stringify(failed)).not.toContain("address");
    await replica.stop();
    expect(replica.lines.join("")).toContain("is at an address that is connected to only if");
    expect(registry.seen).toEqual([]);
  });

  it("A-P8 learns of a registry that comes back", async () => {
    await using registry = await startFaultRegistry();
    registry.image("team/app", "1", "linux/arm64");
    const clock = createVirtualClock(Date.now());
    await using replica = await startReplica({ registries: [registry], clock });
    const question = ask(`${registry.host}/team/app:1`);
    const down = registry.inject({ does: "status", status: 503 });
    const failed = await replica.known(question);
    expect(failed).toMatchObject({ state: "failed", reason: "RegistryFailed" });
    expect(failed).toHaveProperty("retryAt", expect.any(Number));
    down[Symbol.dispose]();
    const { retryAt = 0 } = failed as { readonly retryAt?: number };
    await clock.advance(retryAt - clock.now() + 1);
    // While it is asked for again, the failure is what is known.
    await eventually(() => {
      replica.library.want(question);
      expect(replica.library.look(question).state).toBe("known");
    });
  });
});
