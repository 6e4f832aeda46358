/** Why not: `explain node --rule`, and `explain pod --on`, on a real API server. */
import { nodes, pods } from "@berth/kube";
import { aNode, aPod, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, expect, it } from "vitest";
import { exitCodes } from "../exit-codes.ts";
import { type TestFolder, testFolder } from "../testing/harness.ts";

const DOCUMENTS = `apiVersion: berth.dev/v1alpha1
kind: LabelRule
metadata: {name: gpu}
spec: {match: {all: [{key: example.com/device}]}, labels: [{key: example.com/gpu}]}
---
apiVersion: berth.dev/v1alpha1
kind: StartupGate
metadata: {name: driver}
spec: {nodeSelector: {matchLabels: {pool: a}}, signals: {conditions: [{type: DriverReady}]}}
---
apiVersion: berth.dev/v1alpha1
kind: ArchitecturePolicy
metadata: {name: all}
spec: {mode: Taint, images: [{image: web.test/web:1, architectures: [amd64]}]}
---
apiVersion: berth.dev/v1alpha1
kind: NodeFootprint
metadata: {name: agent}
spec: {workloads: [{podSelector: {matchLabels: {app: web}}}], node: {label: {key: example.com/agent}}}
`;

let cluster: TestCluster;
let folder: TestFolder;
const explain = (line: string) =>
  folder.berth(`explain ${line} --config documents.yaml --kubeconfig kubeconfig`);

beforeAll(async () => {
  cluster = await sharedTestCluster();
  folder = await testFolder({ "documents.yaml": DOCUMENTS, kubeconfig: cluster.kubeconfig() });
  const { client } = cluster;
  await client.create(
    nodes,
    aNode("a").labelled({ pool: "a" }).arm64().tainted("startup.k8s.io/initializing=wait:NoSchedule").build(),
  );
  await client.create(nodes, aNode("b").labelled({ "example.com/device": "x" }).amd64().build());
  const pod = aPod("web").labelled({ app: "web" }).image("web.test/web:1").build();
  await client.create(
    pods,
    { ...pod, spec: { containers: [], ...pod.spec, nodeSelector: { pool: "a" } } },
    { namespace: "default" },
  );
  return () => folder[Symbol.asyncDispose]();
});

it.each([
  ["node a --rule gpu", /label\/example.com\/gpu\n {2}NO +label example.com\/device Exists\n/],
  ["node b --rule config/gpu", /^node b\n\nrule config\/gpu wants label\/example.com\/gpu\n/],
  [
    "node a --gate driver",
    /selection\n {2}yes.*control plane\n {2}yes +label pool=a +a\nsignals\n {2}NO +condition DriverReady +the node has no/,
  ],
  ["node b --gate driver", /rule config\/driver wants nothing .*\n {2}NO +label pool=a\n/s],
  [
    "node a --policy all",
    /taint\n {2}yes +mode is Taint or Both +Taint\n {2}NO +the bootstrap .*\n {2}yes +the node reports its architecture +arm64\n/,
  ],
  ["node a --footprint agent", /pods\n {2}NO +a pod on the node needs the agent\n/],
  [
    "node --rule gpu --summary",
    /wants something on 1 of 2 nodes\n.*\n {2}label example.com\/device Exists +1 \(a\)\n/,
  ],
  ["node --rule gpu --summary -l pool=a", /wants something on 0 of 1 nodes\n/],
  [
    "pod web --on b",
    /^pod default\/web on node b\n.* {2}NO +label pool=a\n.* {2}yes +image web.test\/web:1 runs on amd64 +amd64\n {2}yes +the node has room/s,
  ],
  [
    "pod web --on a",
    / {2}NO +tolerates taint startup.k8s.io\/initializing.*\n.*NO +image web.test\/web:1 runs on arm64 +amd64\n/s,
  ],
])("explain %s", async (line, said) => {
  const { code, stdout, stderr } = await explain(line);
  expect([code, stderr, stdout]).toEqual([exitCodes.done, "", expect.stringMatching(said)]);
});

it.each([
  ["node a --rule none", exitCodes.failed, /no document none is in force: config\/gpu, config\/driver/],
  ["node --rule gpu", exitCodes.usage, /name a node, or count all of them with --summary/],
  ["node", exitCodes.usage, /missing required argument 'name'/],
  ["pod web --rule gpu", exitCodes.usage, /--on is for pods/],
  ["node a --on b", exitCodes.usage, /--on is for pods/],
])("explain %s is refused", async (line, expected, said) => {
  const { code, stderr } = await explain(line);
  expect([code, stderr]).toEqual([expected, expect.stringMatching(said)]);
});
