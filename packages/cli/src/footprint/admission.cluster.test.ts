/** The life of the configuration by which the API server asks about pods that wait for an agent. */

import { type AdmissionServerSpec, admissionServerSpec } from "@berth/host";
import { isApiError, mutatingWebhookConfigurations, pods } from "@berth/kube";
import { nodeFootprints } from "@berth/placement";
import { aPod, eventually, findFreePort, type TestCluster } from "@berth/testcluster";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { type RunningBerth, startBerth } from "../composition.ts";
import { footprintCluster, writeFootprint } from "./testing/footprint-cluster.ts";

const NAMESPACE = "berth-system";
let cluster: TestCluster;

beforeAll(async () => {
  cluster = await footprintCluster(NAMESPACE);
});
afterEach(async () => {
  await cluster.client.deleteCollection(nodeFootprints, {});
  await cluster.client.deleteCollection(mutatingWebhookConfigurations, {});
});

async function aBerth(
  mode: AdmissionServerSpec["mode"] = "Auto",
): Promise<Pick<RunningBerth, "problems"> & AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  const port = await findFreePort();
  const url = `https://127.0.0.1:${port}`;
  const spec = admissionServerSpec.parse({ mode, bindAddress: `127.0.0.1:${port}`, url });
  const client = stack.use(cluster.connect());
  const berth = stack.use(
    await startBerth({
      client,
      namespace: NAMESPACE,
      // The CRDs are as young as the test: without it a footprint deleted while no Berth runs is not taken for deleted yet.
      crdGraceMs: 0,
      admission: { spec, namespace: NAMESPACE },
    }),
  );
  const owned = stack.move();
  return { problems: () => berth.problems(), [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function aFootprint(inject: "Webhook" | "None" = "Webhook"): Promise<void> {
  await writeFootprint(cluster, "agent", {
    preset: "log",
    workloads: [{ podSelector: { matchLabels: { logs: "yes" } } }],
    wait: { inject, port: 9, container: { name: "wait", image: "registry.test/wait:1" } },
  });
}

const inject = (how: "Webhook" | "None"): Promise<object> =>
  cluster.client.patch(
    nodeFootprints,
    { name: "agent" },
    { type: "merge", body: { spec: { wait: { inject: how } } } },
  );

async function configurations(): Promise<readonly string[]> {
  const { items } = await cluster.client.list(mutatingWebhookConfigurations);
  return items.map(({ metadata }) => metadata?.name ?? "");
}
const expectAsked = (): Promise<void> =>
  eventually(async () => expect(await configurations()).toEqual(["berth-footprint"]));
const expectNotAsked = (): Promise<void> =>
  eventually(async () => expect(await configurations()).toEqual([]));

/** Does a new pod wait? Rejects when none can be made. */
async function waits(labels: Readonly<Record<string, string>> = { logs: "yes" }): Promise<boolean> {
  const made = await cluster.client.create(pods, aPod("one").labelled(labels).build(), {
    namespace: "default",
    dryRun: true,
  });
  return made.spec?.initContainers?.some(({ name }) => name === "wait") ?? false;
}

describe("the webhook configuration of footprints", () => {
  it("is not made without a footprint that wants it", async () => {
    await using berth = await aBerth();
    await aFootprint("None");
    await eventually(async () => {
      const { status } = await cluster.client.get(nodeFootprints, { name: "agent" });
      expect(status?.conditions).toBeDefined();
    });
    await eventually(() => expect(berth.problems()).toEqual([]));
    expect(await configurations()).toEqual([]);
  });

  it("comes, goes and comes again as a footprint says", async () => {
    await using _berth = await aBerth();
    await aFootprint();
    await expectAsked();
    await eventually(async () => expect(await waits()).toBe(true));
    expect(await waits({ logs: "no" })).toBe(false);
    await inject("None");
    await expectNotAsked();
    await inject("Webhook");
    await expectAsked();
    await eventually(async () => expect(await waits()).toBe(true));
  });

  it("is put back when somebody deletes it", async () => {
    await using _berth = await aBerth();
    await aFootprint();
    await expectAsked();
    await cluster.client.delete(mutatingWebhookConfigurations, { name: "berth-footprint" });
    await expectAsked();
    await eventually(async () => expect(await waits()).toBe(true));
  });

  it("stays while Berth is away, and new pods start without waiting", async () => {
    await aFootprint();
    {
      await using _berth = await aBerth();
      await expectAsked();
      await eventually(async () => expect(await waits()).toBe(true));
    }
    expect(await configurations()).toEqual(["berth-footprint"]);
    expect(await waits()).toBe(false);
    await using _berth = await aBerth();
    await eventually(async () => expect(await waits()).toBe(true));
  });

  it("goes when the footprint was deleted while Berth was away", async () => {
    await aFootprint();
    {
      await using _berth = await aBerth();
      await expectAsked();
    }
    await cluster.client.delete(nodeFootprints, { name: "agent" });
    await using _berth = await aBerth();
    await expectNotAsked();
    expect(await waits()).toBe(false);
  });

  it("goes when admission is off from now on, and the footprint stays in force", async () => {
    await aFootprint();
    {
      await using _berth = await aBerth();
      await expectAsked();
    }
    await using berth = await aBerth("Off");
    await expectNotAsked();
    await eventually(() => expect(berth.problems()).toEqual([]));
  });

  it("leaves that of somebody else with its name alone", async () => {
    const metadata = { name: "berth-footprint", labels: { mine: "yes" } };
    await cluster.client.create(mutatingWebhookConfigurations, { metadata, webhooks: [] });
    await using _berth = await aBerth();
    await aFootprint("None");
    await eventually(async () => {
      const { status } = await cluster.client.get(nodeFootprints, { name: "agent" });
      expect(status?.conditions).toBeDefined();
    });
    const found = await cluster.client
      .get(mutatingWebhookConfigurations, { name: "berth-footprint" })
      .catch((error: unknown) => error);
    expect(isApiError(found, "notFound")).toBe(false);
  });
});
