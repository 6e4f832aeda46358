/** The stories of `examples/runtime`, each program a process of its own against a real control plane. */
import {
  type ConfigMap,
  type CustomResourceDefinition,
  configMaps,
  customResourceDefinitions,
  jobs,
  namespaces,
  type ObjectName,
} from "@berth/kube";
import { eventually, sharedTestCluster } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { FROM, TO } from "../examples/runtime/configmap-copier/decide.ts";
import { TTL } from "../examples/runtime/ttl-janitor/decide.ts";
import { FINALIZER, OF, PAGES } from "../examples/runtime/website/decide.ts";
import { type Website, websites } from "../examples/runtime/website/website.ts";
import { isGone, readYaml, reasonsFor, requestsOf, startExample } from "./example.ts";
import { expectToStop } from "./program.ts";

describe("configmap-copier", () => {
  it("keeps copies equal, through crashes and while it is away, and leaves strangers alone", async () => {
    const cluster = await sharedTestCluster();
    const { client, audit } = cluster;
    const inSpace = (namespace: string): ObjectName => ({ namespace, name: "settings" });
    const expectCopy = (namespace: string, data: ConfigMap["data"]): Promise<void> =>
      eventually(async () => {
        const copy = await client.get(configMaps, inSpace(namespace));
        expect(copy.data).toEqual(data);
        expect(copy.metadata?.annotations).toEqual({ [FROM]: "origin/settings" });
      });
    const stranger: ConfigMap = { metadata: inSpace("team-b"), data: { mine: "yes" } };
    for (const name of ["origin", "team-a", "team-b"])
      await client.create(namespaces, { metadata: { name } });
    await client.create(configMaps, stranger);
    await client.create(configMaps, {
      metadata: { ...inSpace("origin"), annotations: { [TO]: "team-a, team-b, team-c" } },
      data: { colour: "red" },
    });
    {
      await using program = await startExample(cluster, "configmap-copier", "--leader-elect");
      await expectCopy("team-a", { colour: "red" });
      await eventually(async () => expect(await reasonsFor(client, "settings")).toEqual(["TargetOccupied"]));
      // A namespace that comes later, a copy that somebody changes, one that somebody deletes.
      await client.create(namespaces, { metadata: { name: "team-c" } });
      await expectCopy("team-c", { colour: "red" });
      await client.patch(configMaps, inSpace("team-a"), { type: "merge", body: { data: { colour: "x" } } });
      await expectCopy("team-a", { colour: "red" });
      await client.delete(configMaps, inSpace("team-c"));
      await expectCopy("team-c", { colour: "red" });
      await expectToStop(program);
    }
    // While it is away: new content, one target less.
    await client.patch(configMaps, inSpace("origin"), {
      type: "merge",
      body: { metadata: { annotations: { [TO]: "team-a,team-b" } }, data: { colour: null, size: "5" } },
    });
    {
      await using program = await startExample(cluster, "configmap-copier");
      await expectCopy("team-a", { size: "5" });
      await eventually(() => isGone(client, inSpace("team-c")));

      // At rest: of what is no business of the copies, nothing follows. The second source shows that it is awake.
      const mark = await audit.mark();
      await client.patch(configMaps, inSpace("origin"), {
        type: "merge",
        body: { metadata: { labels: { touched: "yes" } } },
      });
      await client.create(configMaps, {
        metadata: { namespace: "origin", name: "second", annotations: { [TO]: "team-a" } },
      });
      await eventually(() => client.get(configMaps, { namespace: "team-a", name: "second" }));
      expect(await requestsOf("configmap-copier", cluster, mark)).toEqual([
        "create configmaps team-a/second",
      ]);

      // The stranger gives the name free.
      expect((await client.get(configMaps, inSpace("team-b"))).data).toEqual(stranger.data);
      await client.delete(configMaps, inSpace("team-b"));
      await expectCopy("team-b", { size: "5" });
      await program.kill();
    }
    // Its source is deleted while it is away: nothing but the copies tells of it.
    await client.delete(configMaps, inSpace("origin"));
    await using program = await startExample(cluster, "configmap-copier");
    for (const space of ["team-a", "team-b"]) await eventually(() => isGone(client, inSpace(space)));
    await client.get(configMaps, { namespace: "team-a", name: "second" });
    await expectToStop(program);
  });
});

describe("ttl-janitor", () => {
  it("deletes in time, also what ended while it was away, and asks for nothing meanwhile", async () => {
    const cluster = await sharedTestCluster();
    const { client, audit } = cluster;
    const of = (name: string): ObjectName => ({ namespace: "default", name });
    const make = (name: string, ttl?: string): Promise<ConfigMap> =>
      client.create(configMaps, { metadata: { ...of(name), ...(ttl && { annotations: { [TTL]: ttl } }) } });
    const gone = (name: string): Promise<void> => eventually(() => isGone(client, of(name)));
    {
      await using program = await startExample(cluster, "ttl-janitor", "--leader-elect");
      await make("kept");
      await make("odd", "soon");
      await make("long", "1h");
      await make("short", "1s");
      await gone("short");
      await eventually(async () => expect(await reasonsFor(client, "odd")).toEqual(["InvalidTtl"]));
      await program.kill();
    }
    // Its time ends while the janitor is away, and the other's is cut short.
    await make("missed", "1s");
    await client.patch(configMaps, of("long"), {
      type: "merge",
      body: { metadata: { annotations: { [TTL]: "1s" } } },
    });
    await using program = await startExample(cluster, "ttl-janitor");
    await gone("missed");
    await gone("long");

    // A Job's time begins when it has finished; its uid and version are in the delete, and nothing else is asked.
    const template = { spec: { containers: [{ name: "c", image: "i" }], restartPolicy: "Never" } };
    const metadata = { ...of("report"), annotations: { [TTL]: "1s" } };
    await client.create(jobs, { metadata, spec: { template } });
    const mark = await audit.mark();
    const now = `${new Date().toISOString().slice(0, 19)}Z`;
    const condition = (type: string) => ({ type, status: "True", lastTransitionTime: now, reason: "Done" });
    await client.patch(
      jobs,
      of("report"),
      {
        type: "merge",
        body: {
          status: {
            startTime: now,
            completionTime: now,
            conditions: [condition("SuccessCriteriaMet"), condition("Complete")],
          },
        },
      },
      { subresource: "status" },
    );
    await eventually(async () => {
      expect((await client.list(jobs, { namespace: "default" })).items).toEqual([]);
    });
    expect(await requestsOf("ttl-janitor", cluster, mark)).toEqual(["delete jobs.batch default/report"]);
    await client.get(configMaps, of("kept"));
    await client.get(configMaps, of("odd"));
    await expectToStop(program);
  });
});

it("website publishes, says how it stands, and takes the page away before a website may go", async () => {
  const cluster = await sharedTestCluster();
  const { client, audit } = cluster;
  const crd = (await readYaml("website", "crd.yaml")) as CustomResourceDefinition;
  await client.create(customResourceDefinitions, crd);
  await client.create(namespaces, { metadata: { name: PAGES } });
  const of = (name: string): ObjectName => ({ namespace: "default", name });
  const pageOf = async (host: string): Promise<ConfigMap> =>
    client.get(configMaps, { namespace: PAGES, name: host });
  const make = (name: string, spec: Website["spec"]): Promise<Website> =>
    eventually(() => client.create(websites, { metadata: of(name), spec }));
  const change = (name: string, spec: Partial<Website["spec"]>): Promise<Website> =>
    client.patch(websites, of(name), { type: "merge", body: { spec } });
  const expectReady = (name: string, status: string, reason: string, generation: number): Promise<void> =>
    eventually(async () => {
      const { metadata, status: said } = await client.get(websites, of(name));
      expect(said?.conditions).toMatchObject([
        { type: "Ready", status, reason, observedGeneration: generation },
      ]);
      expect(said?.url !== undefined).toBe(status === "True");
      expect(metadata?.finalizers).toEqual([FINALIZER]);
    });

  await make("home", { host: "a.example", html: "one" });
  {
    await using program = await startExample(cluster, "website");
    await expectReady("home", "True", "Published", 1);
    expect((await pageOf("a.example")).metadata?.annotations).toEqual({ [OF]: "default/home" });
    await make("rival", { host: "a.example", html: "mine" });
    await expectReady("rival", "False", "HostTaken", 1);

    // A changed page is put right, a deletion waits for the page to be taken away, and the host is free again.
    const page = { namespace: PAGES, name: "a.example" };
    await client.patch(configMaps, page, { type: "merge", body: { data: { "index.html": "defaced" } } });
    await eventually(async () => expect((await pageOf("a.example")).data).toEqual({ "index.html": "one" }));
    await program.kill();
  }
  // While it is away a website moves, and another cannot go without it.
  await change("home", { host: "b.example" });
  await using program = await startExample(cluster, "website");
  await expectReady("home", "True", "Published", 2);
  await expectReady("rival", "True", "Published", 1);
  expect((await pageOf("a.example")).data).toEqual({ "index.html": "mine" });
  await expectToStop(program);
  await client.delete(websites, of("rival"));
  expect((await client.get(websites, of("rival"))).metadata?.deletionTimestamp).toBeDefined();

  await using again = await startExample(cluster, "website");
  await eventually(async () => expect((await client.list(websites)).items).toHaveLength(1));
  await isGone(client, { namespace: PAGES, name: "a.example" });

  // At rest: one change of one website is one page and one status, and nothing else.
  const mark = await audit.mark();
  await change("home", { html: "two" });
  await expectReady("home", "True", "Published", 3);
  expect(await requestsOf("website-controller", cluster, mark)).toEqual([
    "patch configmaps websites/b.example",
    "patch websites.example.com default/home",
  ]);
  await expectToStop(again);
});
