/** `berth status` on a real API server. */
import { deployments, leases, namespaces, nodes } from "@berth/kube";
import { labelRules, startupGates } from "@berth/placement";
import { aNode, type TestCluster } from "@berth/testcluster";
import { beforeAll, expect, it } from "vitest";
import { startBerth } from "../composition.ts";
import { exitCodes } from "../exit-codes.ts";
import { aDocument, becomes, clusterWithKinds, grant } from "../testing/cluster.ts";
import { testFolder } from "../testing/harness.ts";

const NAMESPACE = "status-cli";
const signals = { conditions: [{ type: "DriverReady" }] };
/** The key is one of Kubernetes' own. */
const reserved = { match: {}, labels: [{ key: "kubernetes.io/x" }] };

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await clusterWithKinds();
});

it("says who leads, what is held and since when, and what needs a person", async () => {
  const { client } = cluster;
  await using folder = await testFolder({ kubeconfig: cluster.kubeconfig() });
  const status = (...more: readonly string[]) =>
    folder.berth(["status", "-n", NAMESPACE, "--kubeconfig", "kubeconfig", ...more]);
  await client.create(namespaces, { metadata: { name: NAMESPACE } });
  await client.create(startupGates, aDocument(startupGates, "network", { signals }));
  expect(await status()).toMatchObject({
    code: exitCodes.needsPerson,
    stdout: expect.stringMatching(/startupgate\/network +no running process has seen this version\n/),
  });
  {
    await using own = cluster.connect();
    const lease = { namespace: NAMESPACE, name: "berth" };
    await using _berth = await startBerth({ client: own, lease, identity: "replica-1" });
    await client.create(nodes, aNode("held").tainted("startup.k8s.io/initializing=wait:NoSchedule").build());
    await becomes(client, startupGates, "network", { status: { heldNodes: 1 } });
    const { code, stdout, stderr } = await status();
    expect([code, stderr]).toEqual([exitCodes.done, ""]);
    expect(stdout).toMatch(
      /^DOCUMENTS +IN FORCE +FAULTY +UNSEEN\nStartupGate +1 +0 +0\n\nGoes on by itself\n/,
    );
    expect(stdout).toMatch(/ {2}lease\/berth +leader replica-1 \(\d+s\)\n/);
    expect(stdout).toMatch(/ {2}startupgate\/network +holds 1 node: held \(\d+s\)\n/);

    expect((await status("-o", "name")).stdout).toBe("lease/berth\nstartupgate/network\n");
    expect((await status("-o", "wide")).stdout).toMatch(/^DOCUMENTS /);
    expect((await status("-o", "jsonpath={.documents[?(@.kind=='StartupGate')].inForce}")).stdout).toBe("1");

    await client.create(labelRules, aDocument(labelRules, "wrong", reserved));
    await becomes(client, labelRules, "wrong", { status: { conditions: [{ status: "False" }] } });
    const faulty = await status("-o", "json");
    expect(faulty.code).toBe(exitCodes.needsPerson);
    const data = JSON.parse(faulty.stdout) as { readonly documents: readonly object[] };
    expect(data.documents).toContainEqual({
      kind: "LabelRule",
      isRead: true,
      inForce: 0,
      faulty: 1,
      unseen: 0,
    });
  }
  await client.delete(labelRules, { name: "wrong" });
  // The Lease was released: what stands in statuses is as it was left.
  const left = await status();
  expect([left.code, left.stdout]).toEqual([
    exitCodes.needsPerson,
    expect.stringContaining("no replica leads: what follows is as it was left"),
  ]);
  await client.delete(leases, { namespace: NAMESPACE, name: "berth" });
  await client.create(deployments, aDeployment(), { namespace: NAMESPACE });
  expect((await status()).stdout).toMatch(
    /deployment\/berth +0 of 2 replicas ready, image example\/berth:1\n/,
  );
});

function aDeployment(): object {
  const matchLabels = { app: "berth" };
  const spec = { containers: [{ name: "berth", image: "example/berth:1" }] };
  return {
    metadata: { name: "berth" },
    spec: { replicas: 2, selector: { matchLabels }, template: { metadata: { labels: matchLabels }, spec } },
  };
}

it("ends with 4 where it may read nothing, and names each permission once where it may read some", async () => {
  const user = "status-reader";
  const kubeconfig = cluster.kubeconfig({ user: await cluster.user(user) });
  await using folder = await testFolder({ kubeconfig });
  const status = () => folder.berth(["status", "--kubeconfig", "kubeconfig"]);
  const none = await status();
  expect([none.code, none.stdout]).toEqual([exitCodes.cluster, ""]);
  expect(none.stderr).toMatch(
    /^berth: no document of Berth may be read; needed: .*verb "list" on "startupgates/,
  );
  await using _role = await grant(cluster.client, user, "list labelrules.berth.dev");
  const some = await status();
  expect([some.code, some.stdout]).toEqual([
    exitCodes.cluster,
    expect.stringContaining("not readable: StartupGate"),
  ]);
  expect(some.stderr.match(/verb "list" on "startupgates/g)).toHaveLength(1);
});

it("ends with 4 where no API server answers", async () => {
  await using folder = await testFolder({});
  const { code } = await folder.berth("status --master http://127.0.0.1:1");
  expect(code).toBe(exitCodes.cluster);
});
