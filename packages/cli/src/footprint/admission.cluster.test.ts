/** The life of the configuration by which the API server asks about pods that wait for an agent. */

import { isApiError, mutatingWebhookConfigurations, pods } from "@berth/kube";
import { nodeFootprints } from "@berth/placement";
import { aPod, eventually, type TestCluster } from "@berth/testcluster";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import {
  aBerth as berth,
  clear,
  conditionOf,
  footprintCluster,
  NAMESPACE,
  statusOf,
  writeFootprint,
} from "./testing/footprint-cluster.ts";

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await footprintCluster(NAMESPACE);
});
afterEach(() => clear(cluster));

const aBerth = (mode: "Auto" | "Off" = "Auto"): ReturnType<typeof berth> => berth(cluster, { mode });

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
    await eventually(async () => expect((await statusOf(cluster)).conditions).toBeDefined());
    await eventually(() => expect(berth.problems()).toEqual([]));
    expect(await configurations()).toEqual([]);
  });

  it("comes, goes and comes again as a footprint says", async () => {
    await using _berth = await aBerth();
    await aFootprint();
    await expectAsked();
    await eventually(async () => expect(await waits()).toBe(true));
    expect(await waits({ logs: "no" })).toBe(false);
    const ready = { status: "True", reason: "AdmissionByWebhook" };
    await eventually(async () => expect(await conditionOf(cluster, "PodsWait")).toMatchObject(ready));
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
    await eventually(async () => expect((await statusOf(cluster)).conditions).toBeDefined());
    const found = await cluster.client
      .get(mutatingWebhookConfigurations, { name: "berth-footprint" })
      .catch((error: unknown) => error);
    expect(isApiError(found, "notFound")).toBe(false);
  });
});
