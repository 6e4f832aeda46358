/** The chart on a cluster: installed by helm, run under its account, uninstalled without a trace. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { servedKinds } from "@berth/cli";
import {
  customResourceDefinitions,
  type Deployment,
  deployments,
  type KubeObject,
  mutatingAdmissionPolicies,
  namespaces,
  nodes,
  pods,
  secrets,
} from "@berth/kube";
import { labelRules, startupGates } from "@berth/placement";
import { aNode, namespacesAreComplete } from "@berth/testcluster";
import { expect, it } from "vitest";
import { hasPolicies } from "../packages/cli/src/testing/cluster.ts";
import { helmFolder } from "../scripts/chart/helm.ts";
import { CHART, createChartFixture, IN_NAMESPACE, NAMESPACE } from "./chart-fixture.ts";
import { patiently } from "./patience.ts";
import { startBerthProcess } from "./product.ts";

const run = promisify(execFile);
const TAINT = "example.com/starting";

it("is installed, labels a node, is upgraded, holds a node, and is uninstalled without a trace", async () => {
  await using fixture = await createChartFixture();
  const { cluster, client, call, settledObjects, environment, folder } = fixture;
  await client.create(namespaces, {
    metadata: { name: NAMESPACE, labels: { "pod-security.kubernetes.io/enforce": "restricted" } },
  });
  await patiently(() => namespacesAreComplete(cluster));
  const before = await settledObjects();
  const mark = await cluster.audit.mark();
  const startedAt = performance.now();
  await call("helm", "install", "berth", CHART, ...IN_NAMESPACE);
  const deployed = await patiently(async () => {
    const found = await client.get(deployments, { namespace: NAMESPACE, name: "berth" });
    expect(found.status?.readyReplicas).toBe(2);
    return found;
  });
  {
    await using berth = startBerthProcess({
      args: argsOf(deployed, folder),
      environment: await fixture.podOf("berth"),
    });
    await client.create(labelRules, {
      metadata: { name: "hello" },
      spec: { match: {}, labels: [{ key: "example.com/berth", value: "hello" }] },
    } as KubeObject);
    await patiently(async () => {
      const { metadata } = await client.get(nodes, { name: "n1" });
      expect(metadata?.labels).toMatchObject({ "example.com/berth": "hello" });
    });
    expect(performance.now() - startedAt).toBeLessThan(20_000);
    await upgradeInTurns();
    await client.create(startupGates, {
      metadata: { name: "starting" },
      spec: {
        taint: { key: TAINT },
        signals: { pods: [{ podSelector: { matchLabels: { a: "b" } } }] },
      },
    } as KubeObject);
    // Without policies the API server asks a webhook in a pod, and none runs here: Berth holds n2 when it sees it.
    await patiently(async () => {
      const made = hasPolicies ? (await client.list(mutatingAdmissionPolicies)).items : ["none is served"];
      expect(made).not.toEqual([]);
    });
    await client.create(nodes, aNode("n2").fake().build());
    await patiently(async () => {
      expect((await client.get(nodes, { name: "n2" })).spec?.taints).toMatchObject([{ key: TAINT }]);
    });
    expect(berth.output).not.toMatch(/forbidden|\b403\b/);
  }

  const { stdout } = await fixture.runHook();
  expect(stdout).toContain("- label/example.com/berth=hello");
  expect(stdout).toContain(TAINT);
  expect(
    (await client.list(pods, { namespace: NAMESPACE, labelSelector: "app.kubernetes.io/name=berth" })).items,
  ).toEqual([]);
  await call("helm", "uninstall", "berth", ...IN_NAMESPACE);
  const crds = (await client.list(customResourceDefinitions)).items.map(({ spec }) => spec.names.kind);
  expect(crds.toSorted()).toEqual(servedKinds.map(({ kind }) => kind).toSorted());
  const refused = await cluster.audit.entriesSince(mark, { code: 403 });
  expect(refused.filter(({ user }) => user.startsWith(`system:serviceaccount:${NAMESPACE}:`))).toEqual([]);

  await client.delete(labelRules, { name: "hello" });
  await client.delete(startupGates, { name: "starting" });
  for (const { metadata } of (await client.list(customResourceDefinitions)).items)
    await client.delete(customResourceDefinitions, { name: metadata?.name ?? "" });
  await client.delete(nodes, { name: "n2" });
  await patiently(async () => expect(await settledObjects()).toEqual(before));

  /** Meanwhile Berth runs. A second installation is refused, and an upgrade that was killed is run again. */
  async function upgradeInTurns(): Promise<void> {
    const second = call("helm", "install", "second", CHART, ...IN_NAMESPACE, "--set", "installation=blue");
    await expect(second).rejects.toThrow("has the installation berth already (release berth)");
    const upgrade = ["upgrade", "berth", CHART, ...IN_NAMESPACE, "--set", "replicaCount=3"];
    const killed = new AbortController();
    // Its pods wait for such a node, and helm for its pods.
    const waiting = [...upgrade, "--wait", "--set", "nodeSelector.nowhere=here"];
    const interrupted = run(join(helmFolder(), "helm"), waiting, {
      env: environment,
      signal: killed.signal,
      killSignal: "SIGKILL",
    });
    const pending = { namespace: NAMESPACE, labelSelector: "owner=helm,status=pending-upgrade" };
    await patiently(async () => expect((await client.list(secrets, pending)).items).toHaveLength(1));
    killed.abort();
    await expect(interrupted).rejects.toThrow("aborted");
    const replicas = (count: number) =>
      patiently(async () => {
        const { status } = await client.get(deployments, { namespace: NAMESPACE, name: "berth" });
        expect(status).toMatchObject({ replicas: count, readyReplicas: count });
      });
    // By the moment of its end, helm still takes the first for running.
    await call("helm", ...upgrade).catch(async (error: unknown) => {
      if (!String(error).includes("another operation")) throw error;
      await call("helm", "rollback", "berth", ...IN_NAMESPACE);
      await call("helm", ...upgrade);
    });
    await replicas(3);
    await call("helm", "rollback", "berth", "1", ...IN_NAMESPACE);
    await replicas(2);
    expect((await client.get(nodes, { name: "n1" })).metadata?.labels).toMatchObject({
      "example.com/berth": "hello",
    });
  }
}, 120_000);

/** Of its pods, with a folder and ports of this machine. */
function argsOf({ spec }: Deployment, labels: string): readonly string[] {
  const args = spec?.template.spec?.containers[0]?.args ?? [];
  const here = args.map((it) => it.replace("--label-dir=/labels", `--label-dir=${labels}`));
  const address = "127.0.0.1:0";
  return [...here, "--metrics-bind-address", address, "--health-probe-bind-address", address];
}
