/** The patches for agents, as a real API server takes them. */
import { type DaemonSet, daemonSets, type KubeClient, namespaces, type PodSpec } from "@berth/kube";
import { sharedTestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { selectorPatch } from "./selector.ts";

const namespace = "footprint-agent";
type Target = Parameters<typeof selectorPatch>[1];
const lazy: Target = { label: { key: "ate.dev/atelet", value: "true" } };

let client: KubeClient;

beforeAll(async () => {
  ({ client } = await sharedTestCluster());
  await client.create(namespaces, { metadata: { name: namespace } });
});

async function anAgent(name: string, spec: Partial<PodSpec> = {}): Promise<DaemonSet> {
  const labels = { app: name };
  const containers = [{ name: "agent", image: "registry.test/agent:1" }];
  return await client.create(
    daemonSets,
    {
      metadata: { name },
      spec: {
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { containers, ...spec } },
      },
    },
    { namespace },
  );
}

async function follow(daemonSet: DaemonSet, target: Target): Promise<DaemonSet> {
  const body = selectorPatch(daemonSet, target);
  if (body === undefined) throw new Error("there is nothing to patch");
  const name = daemonSet.metadata?.name ?? "";
  return await client.patch(daemonSets, { namespace, name }, { type: "json", body });
}

const specOf = ({ spec }: DaemonSet): PodSpec | undefined => spec?.template.spec;

describe("the patch that makes an agent follow", () => {
  it("is taken, whatever the template asks for already, and settles it", async () => {
    const plain = await follow(await anAgent("plain"), lazy);
    expect(specOf(plain)?.nodeSelector).toEqual({ "ate.dev/atelet": "true" });
    const nodeSelector = { "kubernetes.io/os": "linux" };
    const selecting = await follow(await anAgent("selecting", { nodeSelector }), lazy);
    expect(specOf(selecting)?.nodeSelector).toEqual({ ...nodeSelector, "ate.dev/atelet": "true" });
    for (const settled of [plain, selecting]) expect(selectorPatch(settled, lazy)).toBeUndefined();
  });

  it("is refused for a version that is no longer the latest, and for another DaemonSet of the name", async () => {
    const read = await anAgent("changing");
    const body = { metadata: { annotations: { a: "b" } } };
    await client.patch(daemonSets, { namespace, name: "changing" }, { type: "merge", body });
    await expect(follow(read, lazy)).rejects.toMatchObject({ failure: { kind: "invalid" } });
    await client.delete(daemonSets, { namespace, name: "changing" });
    const again = await anAgent("changing");
    const stale = { ...again, metadata: { ...again.metadata, uid: read.metadata?.uid ?? "" } };
    await expect(follow(stale, lazy)).rejects.toMatchObject({ failure: { kind: "invalid" } });
    expect(specOf(await follow(again, lazy))?.nodeSelector).toEqual({ "ate.dev/atelet": "true" });
  });
});
