/** `berth run` from a terminal, on a cluster without Berth's namespace: a URL is enough for admission. */
import {
  mutatingAdmissionPolicies,
  mutatingWebhookConfigurations,
  namespaces,
  nodes,
  secrets,
} from "@berth/kube";
import { aNode, eventually, findFreePort, sharedTestCluster } from "@berth/testcluster";
import { expect, it } from "vitest";
import { exitCodes } from "./exit-codes.ts";
import { testFolder } from "./testing/harness.ts";
import { start } from "./testing/process.ts";

const GATE = `apiVersion: berth.dev/v1alpha1
kind: StartupGate
metadata: {name: network}
spec: {signals: {pods: [{}]}}
`;

const serverAt = (port: number, mode: string): string => `apiVersion: berth.dev/v1alpha1
kind: AdmissionServer
metadata: {name: default}
spec: {mode: ${mode}, bindAddress: "127.0.0.1:${port}", url: "https://127.0.0.1:${port}"}
`;

it.each(["Auto", "Webhook"])("a new node gets its taint in admission, in mode %s", async (mode) => {
  const cluster = await sharedTestCluster();
  const { client } = cluster;
  await using folder = await testFolder({
    "berth.yaml": `${GATE}---\n${serverAt(await findFreePort(), mode)}`,
    kubeconfig: cluster.kubeconfig(),
  });
  const names = (await client.list(namespaces)).items.map(({ metadata }) => metadata?.name);
  expect(names).not.toContain("berth-system");
  const off = "--metrics-bind-address 0 --health-probe-bind-address 0";
  await using berth = start(`run --kubeconfig kubeconfig --config berth.yaml ${off}`, folder);
  await eventually(async () => {
    const made = await client.create(nodes, aNode(`url-${mode.toLowerCase()}`).build(), { dryRun: true });
    expect(made.spec?.taints?.map(({ key }) => key)).toContain("startup.k8s.io/initializing");
  });
  expect((await client.list(mutatingWebhookConfigurations)).items).toMatchObject([
    { metadata: { name: "berth-startup-gate" } },
  ]);
  // A policy would go on holding nodes after a Berth that was killed, and nothing else may be left behind.
  expect((await client.list(mutatingAdmissionPolicies)).items).toEqual([]);
  expect((await client.list(secrets)).items).toEqual([]);
  process.kill(berth.pid, "SIGTERM");
  expect(await berth.ended).toBe(exitCodes.done);
});
