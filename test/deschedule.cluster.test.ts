/**
 * Descheduling where the whole of Kubernetes is at work: the Deployment controller makes pods, the scheduler binds them,
 * kwok runs them, and Berth moves them when a device leaves their node.
 */

import { mkdtempDisposable, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Deployment, deployments, events, nodes, pods } from "@berth/kube";
import { aNode, aPod, eventually, type TestCluster } from "@berth/testcluster";
import { beforeAll, expect, it } from "vitest";
import { sharedFullCluster } from "./footprint-cluster.ts";
import { patiently } from "./patience.ts";
import { type BerthProcess, startBerthProcess } from "./product.ts";

const DEVICE = "example.com/usb";
const LABEL = "example.com/camera";
const RULE = `apiVersion: berth.dev/v1alpha1
kind: LabelRule
metadata: { name: camera }
spec:
  match: { all: [{ key: ${DEVICE} }] }
  labels: [{ key: ${LABEL} }]
  removalDelay: 0s
`;
const policy = (spec: string): string => `apiVersion: berth.dev/v1alpha1
kind: DeschedulePolicy
metadata: { name: default }
spec: ${spec}
`;

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedFullCluster();
});

interface Stage extends AsyncDisposable {
  readonly berth: BerthProcess;
  /** Writes the spec of the only policy. */
  readonly say: (spec: string) => Promise<void>;
}

async function started(spec: string): Promise<Stage> {
  const folder = await mkdtempDisposable(path.join(tmpdir(), "berth-deschedule-"));
  const file = (name: string, text: string): Promise<void> => writeFile(path.join(folder.path, name), text);
  const say = (text: string): Promise<void> => file("policy.yaml", policy(text));
  await file("rule.yaml", RULE);
  await say(spec);
  await writeFile(`${folder.path}.kubeconfig`, cluster.kubeconfig(), { mode: 0o600 });
  const addresses = ["--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0"];
  const files = ["--config", folder.path, "--kubeconfig", `${folder.path}.kubeconfig`];
  const berth = startBerthProcess({ args: ["run", ...files, ...addresses] });
  return {
    berth,
    say,
    async [Symbol.asyncDispose]() {
      await berth[Symbol.asyncDispose]();
      await rm(`${folder.path}.kubeconfig`);
      await folder.remove();
    },
  };
}

/** A node that kwok runs. */
async function addNode(name: string): Promise<void> {
  await cluster.client.create(nodes, aNode(name).fake().build());
  await eventually(async () => {
    const { spec } = await cluster.client.get(nodes, { name });
    expect(spec?.taints ?? []).toEqual([]);
  });
}

async function device(name: string, isThere: boolean): Promise<void> {
  const labels = { [DEVICE]: isThere ? "yes" : null };
  await cluster.client.patch(nodes, { name }, { type: "merge", body: { metadata: { labels } } });
}

/** A Deployment whose pods ask for the derived label. */
async function deploy(name: string, replicas: number): Promise<void> {
  const labels = { app: name };
  const { spec } = aPod(name)
    .selecting({ [LABEL]: "true" })
    .build();
  await cluster.client.create(
    deployments,
    {
      metadata: { name, namespace: "default" },
      spec: { replicas, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
    } as Deployment,
    { namespace: "default" },
  );
}

/** Where its Ready pods are, sorted; throws while there are others. */
async function placesOf(app: string): Promise<readonly string[]> {
  const { items } = await cluster.client.list(pods, { namespace: "default", labelSelector: `app=${app}` });
  return items
    .map(({ metadata, spec, status }) => {
      const isReady = status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True");
      if (metadata?.deletionTimestamp !== undefined || !isReady)
        throw new Error(`${metadata?.name} is not whole`);
      return spec?.nodeName ?? "";
    })
    .sort();
}

const evictions = async (app: string): Promise<number> => {
  const { items } = await cluster.client.list(events, { namespace: "default" });
  return items.filter(
    ({ reason, regarding }) => reason === "PodDescheduled" && regarding?.name?.startsWith(`${app}-`),
  ).length;
};

it("moves the pods of a Deployment to the node with the device, and leaves them where nothing else fits", async () => {
  for (const name of ["cam-1", "cam-2"]) await addNode(name);
  await device("cam-1", true);
  await using stage = await started("{ for: 2s }");
  await stage.berth.ready();
  await deploy("viewer", 3);
  await patiently(async () => expect(await placesOf("viewer")).toEqual(["cam-1", "cam-1", "cam-1"]));
  await device("cam-2", true);
  await device("cam-1", false);
  await patiently(async () => expect(await placesOf("viewer")).toEqual(["cam-2", "cam-2", "cam-2"]));
  expect(await evictions("viewer")).toBe(3);
  await device("cam-2", false);
  console.log(stage.berth.output.slice(-3000));
});
