/** A pod that comes with its namespace: the API server asks about it before anybody has been told of the namespace. */
import { bindAdmission, reviewHandlers } from "@berth/host";
import { type KubeClient, namespaces, type Pod } from "@berth/kube";
import { berthAs, compileFootprints, nodeFootprintSpec, waitAdmission } from "@berth/placement";
import { type AdmissionAnswer, createSilentLogger } from "@berth/runtime";
import { aPod, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";

let cluster: TestCluster;
let count = 0;

beforeAll(async () => {
  cluster = await sharedTestCluster();
});

const spec = nodeFootprintSpec.parse({
  workloads: [
    {
      podSelector: { matchLabels: { logs: "yes" } },
      namespaceSelector: { matchLabels: { team: "a" } },
    },
  ],
  node: { label: { key: "test.berth.dev/agent" } },
  wait: { inject: "Webhook", port: 9, container: { name: "wait", image: "registry.test/wait:1" } },
});
const footprints = compileFootprints({
  sources: [{ source: "config", documents: [{ name: "agent", spec }] }],
});

async function aNamespace(labels: Readonly<Record<string, string>>): Promise<string> {
  const name = `footprint-new-${++count}`;
  await cluster.client.create(namespaces, { metadata: { name, labels } });
  return name;
}

/** @param seen what is known of namespaces: by default that there is none of this name yet. */
async function ask(
  namespace: string,
  client: Pick<KubeClient, "list" | "create"> = cluster.client,
  seen: Readonly<Record<string, string>> | null = null,
): Promise<AdmissionAnswer | undefined> {
  const object: Pod = aPod("p").labelled({ logs: "yes" }).build();
  const log = createSilentLogger();
  const observations = { namespaceLabels: () => seen, driverOfClaim: () => null };
  const rules = bindAdmission(waitAdmission({ observations, log }), () => footprints);
  const env = { ...berthAs("berth"), spec: { failurePolicy: "Ignore" } } as const;
  const handlers = reviewHandlers([rules], { client, env, log });
  const abort = new AbortController();
  const request = {
    uid: "u",
    kind: { group: "", version: "v1", kind: "Pod" },
    resource: { group: "", version: "v1", resource: "pods" },
    operation: "CREATE" as const,
    name: "p",
    namespace,
    object,
    userInfo: {},
    dryRun: false,
  };
  return handlers["/mutate-pod-footprint"]?.(request, { signal: abort.signal });
}

const waiting = { allowed: true, patch: [{ op: "add", path: "/spec/initContainers" }] };

describe("a pod whose namespace is not known yet", () => {
  it("waits where the namespace is selected, and does not where it is not", async () => {
    expect(await ask(await aNamespace({ team: "a" }))).toMatchObject(waiting);
    expect(await ask(await aNamespace({ team: "b" }))).toEqual({ allowed: true, patch: [] });
  });

  it("starts without waiting where the namespace may not be read", async () => {
    const name = await aNamespace({ team: "a" });
    await using client = cluster.connect({ user: await cluster.user("footprint-blind") });
    expect(await ask(name, client)).toEqual({ allowed: true, patch: [] });
  });

  it("is told by what is known where it is", async () => {
    const name = await aNamespace({ team: "b" });
    expect(await ask(name, cluster.client, { team: "a" })).toMatchObject(waiting);
  });
});
