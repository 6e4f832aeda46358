import {
  type ConfigMap,
  configMaps,
  type KubeObject,
  type MutatingWebhook,
  type MutatingWebhookConfiguration,
  mutatingWebhookConfigurations,
  namespaces,
} from "@berth/kube";
import { type AuditFilter, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { createVirtualClock } from "../clock.ts";
import { createSilentLogger } from "../json-log.ts";
import { clusterName } from "../key.ts";
import { grant } from "../testing/grant.ts";
import { createObjectKeeper, type ObjectClient, type ObjectKeeperOptions } from "./object-keeper.ts";

const NAMESPACE = "kept";

let cluster: TestCluster;
let count = 0;

beforeAll(async () => {
  cluster = await sharedTestCluster();
  await cluster.client.create(namespaces, { metadata: { name: NAMESPACE } });
});

const nextName = (): string => `kept-${++count}`;

async function launch<T extends KubeObject>(
  options: Pick<ObjectKeeperOptions<T>, "resource"> & Partial<ObjectKeeperOptions<T>>,
  desired?: readonly T[],
) {
  // Held still: what is tried again is tried again when a test lets time pass.
  const clock = createVirtualClock();
  const keeper = createObjectKeeper<T>({
    name: "keeper",
    client: cluster.client,
    cluster: clusterName("test"),
    clock,
    log: createSilentLogger(),
    ...options,
  } as ObjectKeeperOptions<T>);
  keeper.setDesired(desired);
  const stopping = new AbortController();
  const [informer, writer] = keeper.components;
  const informing = await informer.start(stopping.signal);
  const writing = await writer.start(stopping.signal);
  return {
    keeper,
    clock,
    [Symbol.asyncDispose]: async () => {
      stopping.abort();
      await Promise.all([informing.ended, writing.ended]);
    },
  };
}

/** Objects of a label of their own. */
function configMapKeeper(
  owner: string,
  desired?: readonly ConfigMap[],
  client: ObjectClient = cluster.client,
) {
  return launch<ConfigMap>(
    { resource: configMaps, namespace: NAMESPACE, selector: { owner }, client },
    desired,
  );
}

const aMap = (name: string, data: Record<string, string> = { a: "1" }): ConfigMap => ({
  metadata: { name },
  data,
});
const read = (name: string): Promise<ConfigMap> =>
  cluster.client.get(configMaps, { namespace: NAMESPACE, name });
const patch = (name: string, body: object): Promise<ConfigMap> =>
  cluster.client.patch(configMaps, { namespace: NAMESPACE, name }, { type: "merge", body });
const namesOf = async (owner: string): Promise<string[]> => {
  const { items } = await cluster.client.list(configMaps, {
    namespace: NAMESPACE,
    labelSelector: `owner=${owner}`,
  });
  return items.map(({ metadata }) => metadata?.name ?? "").sort();
};

/** The requests that changed something, answered since then. */
async function writesOf(work: () => Promise<unknown>, filter: AuditFilter): Promise<readonly string[]> {
  const mark = await cluster.audit.mark();
  await work();
  const entries = await cluster.audit.entriesSince(mark, filter);
  return entries.flatMap(({ verb }) => (["get", "list", "watch"].includes(verb) ? [] : [verb]));
}

describe("objects that are kept", () => {
  it("are made, changed when something else is desired, and deleted when nothing is", async () => {
    const owner = nextName();
    const [a, b] = [`${owner}-a`, `${owner}-b`];
    await using live = await configMapKeeper(owner, [aMap(a), aMap(b)]);
    await eventually(async () => expect(await namesOf(owner)).toEqual([a, b]));
    expect(await read(a)).toMatchObject({ metadata: { labels: { owner } }, data: { a: "1" } });
    live.keeper.setDesired([aMap(a, { b: "2" })]);
    await eventually(async () => expect(await namesOf(owner)).toEqual([a]));
    await eventually(async () => expect((await read(a)).data).toEqual({ b: "2" }));
    live.keeper.setDesired([]);
    await eventually(async () => expect(await namesOf(owner)).toEqual([]));
    expect(live.keeper.problem()).toBeUndefined();
  });

  it("are left as they are while nothing is known", async () => {
    const owner = nextName();
    const metadata = { name: owner, namespace: NAMESPACE, labels: { owner } };
    await cluster.client.create(configMaps, { metadata });
    await using live = await configMapKeeper(owner);
    live.keeper.setDesired(undefined);
    await patch(owner, { data: { touched: "yes" } });
    expect(await namesOf(owner)).toEqual([owner]);
    live.keeper.setDesired([aMap(`${owner}-new`)]);
    await eventually(async () => expect(await namesOf(owner)).toEqual([`${owner}-new`]));
  });

  it("are put in order when somebody changes, strips or deletes them, and keep what others add", async () => {
    const owner = nextName();
    await using _live = await configMapKeeper(owner, [aMap(owner)]);
    await eventually(() => read(owner));
    await patch(owner, { data: { a: "changed", added: "by another" } });
    await eventually(async () => expect((await read(owner)).data).toEqual({ a: "1", added: "by another" }));
    await patch(owner, { metadata: { labels: { owner: null } } });
    await eventually(async () => expect((await read(owner)).metadata?.labels).toEqual({ owner }));
    const { uid } = (await read(owner)).metadata ?? {};
    await cluster.client.delete(configMaps, { namespace: NAMESPACE, name: owner });
    await eventually(async () => expect((await read(owner)).metadata?.uid).not.toBe(uid));
  });

  it("cost no write in order: not at rest, not for changes of others, not after a restart; a field goes then", async () => {
    const owner = nextName();
    const desired = [aMap(`${owner}-a`), aMap(`${owner}-b`)];
    const user = await cluster.user(`user-${owner}`, ["system:masters"]);
    await using client = cluster.connect({ user });
    const first = await configMapKeeper(owner, desired, client);
    await eventually(async () => expect(await namesOf(owner)).toHaveLength(2));
    const writes = await writesOf(
      async () => {
        first.keeper.setDesired(desired.map((map) => ({ ...map })));
        await patch(`${owner}-a`, { data: { added: "by another" } });
        await patch(`${owner}-b`, { metadata: { annotations: { added: "by another" } } });
        await first[Symbol.asyncDispose]();
        await using second = await configMapKeeper(owner, desired, client);
        // What is written for this comes after all that would be written for the others.
        second.keeper.setDesired([...desired, aMap(`${owner}-c`)]);
        await eventually(() => read(`${owner}-c`));
      },
      { user: user.name },
    );
    expect(writes).toEqual(["patch"]);
    // Taken out of what is desired while nobody ran.
    await using _third = await configMapKeeper(owner, [aMap(`${owner}-c`, {})], client);
    await eventually(async () => expect((await read(`${owner}-c`)).data ?? {}).toEqual({}));
  });

  it("cost one write for each change of others when the server stores them in another form", async () => {
    const owner = nextName();
    // An empty map is not stored.
    const desired = { ...aMap(owner), binaryData: {} };
    await using live = await configMapKeeper(owner, []);
    const mark = await cluster.audit.mark();
    const applied = (times: number): Promise<void> =>
      eventually(async () =>
        expect(await cluster.audit.countSince(mark, { name: owner, verb: "patch" })).toBe(times),
      );
    live.keeper.setDesired([desired]);
    await applied(1);
    await patch(owner, { data: { added: "by another" } });
    await applied(3);
    // What is written for these comes after all that would be written for the first.
    for (const marker of [`${owner}-1`, `${owner}-2`]) {
      live.keeper.setDesired([structuredClone(desired), aMap(marker)]);
      await eventually(() => read(marker));
    }
    await applied(3);
  });

  it("are not fought over without end", async () => {
    const owner = nextName();
    await using live = await configMapKeeper(owner, [aMap(owner)]);
    await eventually(() => read(owner));
    for (let round = 1; round <= 3; round++) {
      await patch(owner, { data: { a: `fight ${round}` } });
      await eventually(async () => expect((await read(owner)).data).toEqual({ a: "1" }));
    }
    const lost = await patch(owner, { data: { a: "fight 4" } });
    await live.clock.advance(60_000);
    expect((await read(owner)).metadata?.resourceVersion).toBe(lost.metadata?.resourceVersion);
    await eventually(async () => {
      await live.clock.advance(60_000);
      expect((await read(owner)).data).toEqual({ a: "1" });
    });
  });

  it("are all deleted on release, also after the components have ended", async () => {
    const owner = nextName();
    const { signal } = new AbortController();
    const live = await configMapKeeper(owner, [aMap(`${owner}-a`), aMap(`${owner}-b`)]);
    await eventually(async () => expect(await namesOf(owner)).toHaveLength(2));
    await live[Symbol.asyncDispose]();
    await live.keeper.release(signal);
    expect(await namesOf(owner)).toEqual([]);
    await using running = await configMapKeeper(owner, [aMap(owner)]);
    await eventually(() => read(owner));
    await running.keeper.release(signal);
    expect(await namesOf(owner)).toEqual([]);
  });

  it("I-6 say which right is missing, and are made within seconds once it is granted", async () => {
    const owner = nextName();
    const user = await cluster.user(`user-${owner}`);
    await using client = cluster.connect({ user });
    await using _seen = await grant(cluster, user.name, configMaps, "list", "watch", "patch");
    // The informer waits on a clock that stands still if it is refused once.
    await eventually(() => client.list(configMaps, { namespace: NAMESPACE }));
    await using live = await configMapKeeper(owner, [aMap(owner)], client);
    await eventually(() =>
      expect(live.keeper.problem()).toContain(
        `verb "create" on "configmaps" in namespace "${NAMESPACE}" is missing`,
      ),
    );
    expect(live.keeper.components[1].problem?.()).toBe(live.keeper.problem());
    expect(live.keeper.refusal()).toBe(live.keeper.problem());
    expect(live.keeper.settled()).toBe(false);
    await using _made = await grant(cluster, user.name, configMaps, "create");
    await eventually(() =>
      client.create(configMaps, aMap(`${owner}-tried`), { namespace: NAMESPACE, dryRun: true }),
    );
    await live.clock.advance(5000);
    await eventually(() => expect(live.keeper.settled()).toBe(true));
    expect(live.keeper.problem()).toBeUndefined();
    await read(owner);
  });

  it("must have a name, and be where they are looked for; and a selector must select", async () => {
    await using live = await configMapKeeper(nextName());
    expect(() => live.keeper.setDesired([{}])).toThrow(/without a name/);
    const elsewhere = { metadata: { name: "a", namespace: "default" } };
    expect(() => live.keeper.setDesired([elsewhere])).toThrow(/"a" in namespace "default"/);
    await expect(launch({ resource: configMaps, selector: {} })).rejects.toThrow(/would be ours to delete/);
  });
});

describe("webhook configurations that are kept", () => {
  const aConfiguration = (name: string, webhooks: readonly MutatingWebhook[]) =>
    ({ metadata: { name }, webhooks }) satisfies MutatingWebhookConfiguration;

  it("cost no write in order, though the server adds defaults, and lose a webhook that is not desired any more", async () => {
    const name = nextName();
    const desired = aConfiguration(name, [aWebhook("a.kept.test"), aWebhook("b.kept.test")]);
    const options = { resource: mutatingWebhookConfigurations, selector: { owner: name } };
    const before = await launch<MutatingWebhookConfiguration>(options, [desired]);
    await eventually(() => cluster.client.get(mutatingWebhookConfigurations, { name }));
    await before[Symbol.asyncDispose]();
    await using again = await launch<MutatingWebhookConfiguration>(options, [desired]);
    const writes = await writesOf(
      async () => {
        again.keeper.setDesired([desired, aConfiguration(`${name}-2`, [])]);
        await eventually(() => cluster.client.get(mutatingWebhookConfigurations, { name: `${name}-2` }));
      },
      { resource: "mutatingwebhookconfigurations.admissionregistration.k8s.io", name },
    );
    expect(writes).toEqual([]);
    again.keeper.setDesired([aConfiguration(name, [aWebhook("b.kept.test")])]);
    await eventually(async () => {
      const { webhooks } = await cluster.client.get(mutatingWebhookConfigurations, { name });
      expect(webhooks?.map(({ name }) => name)).toEqual(["b.kept.test"]);
    });
  });
});

describe("an adopted object", () => {
  const caBundle = (text: string): string => Buffer.from(text).toString("base64");
  const bundled = (name: string, ca: string): MutatingWebhookConfiguration => ({
    metadata: { name },
    // A bundle is all that is desired of it.
    webhooks: [{ name: "a.kept.test", clientConfig: { caBundle: caBundle(ca) } } as MutatingWebhook],
  });
  const readBundle = async (name: string): Promise<string | undefined> =>
    (await cluster.client.get(mutatingWebhookConfigurations, { name })).webhooks?.[0]?.clientConfig.caBundle;

  it("is changed in the desired fields alone, when it is there", async () => {
    const name = nextName();
    const [first, second] = [cluster.ca, cluster.ca.repeat(2)];
    const options = { resource: mutatingWebhookConfigurations, adopt: name };
    await using live = await launch<MutatingWebhookConfiguration>(options, [bundled(name, first)]);
    const made = { metadata: { name }, webhooks: [aWebhook("a.kept.test"), aWebhook("b.kept.test")] };
    await cluster.client.create(mutatingWebhookConfigurations, made);
    await eventually(async () => expect(await readBundle(name)).toBe(caBundle(first)));
    const { metadata, webhooks } = await cluster.client.get(mutatingWebhookConfigurations, { name });
    expect(webhooks).toMatchObject(made.webhooks);
    expect(metadata?.labels).toBeUndefined();
    expect(metadata?.annotations).toBeUndefined();
    live.keeper.setDesired([bundled(name, second)]);
    await eventually(async () => expect(await readBundle(name)).toBe(caBundle(second)));
    await cluster.client.patch(
      mutatingWebhookConfigurations,
      { name },
      { type: "json", body: [{ op: "remove", path: "/webhooks/0/clientConfig/caBundle" }] },
    );
    await eventually(async () => expect(await readBundle(name)).toBe(caBundle(second)));
  });

  it("is neither made nor deleted", async () => {
    const name = nextName();
    await using live = await launch<ConfigMap>({ resource: configMaps, namespace: NAMESPACE, adopt: name }, [
      aMap(name),
    ]);
    await cluster.client.create(configMaps, { metadata: { name, namespace: NAMESPACE } });
    await eventually(async () => expect((await read(name)).data).toEqual({ a: "1" }));
    const writes = await writesOf(
      async () => {
        await cluster.client.delete(configMaps, { namespace: NAMESPACE, name });
        await cluster.client.create(configMaps, { metadata: { name, namespace: NAMESPACE } });
        await eventually(async () => expect((await read(name)).data).toEqual({ a: "1" }));
      },
      { name },
    );
    expect(writes.filter((verb) => verb !== "patch")).toEqual(["delete", "create"]);
    live.keeper.setDesired([]);
    await live.keeper.release(new AbortController().signal);
    expect((await read(name)).data).toEqual({ a: "1" });
  });
});

function aWebhook(name: string): MutatingWebhook {
  return {
    name,
    admissionReviewVersions: ["v1"],
    sideEffects: "None",
    failurePolicy: "Ignore",
    clientConfig: { url: "https://127.0.0.1:1/pods" },
    rules: [{ apiGroups: ["kept.test"], apiVersions: ["v1"], operations: ["CREATE"], resources: ["things"] }],
  };
}
