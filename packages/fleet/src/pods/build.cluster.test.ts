/** A real API server takes the pods, in a namespace that refuses privileged ones. */
import { type KubeClient, namespaces, type Pod, pods } from "@berth/kube";
import { sharedTestCluster } from "@berth/testcluster";
import { beforeAll, expect, it } from "vitest";
import type { InstanceSpec, SandboxContainer } from "../api/workload.ts";
import { RULES } from "../fleet/testing/rules.ts";
import { buildPod } from "./build.ts";
import { anInstance } from "./testing/instances.ts";

const namespace = "fleet-build";
const app: SandboxContainer = { name: "app", image: "registry.test/app:1" };
const limits = { cpu: "250m", memory: "64Mi" };
const size = { cpu: "1", memory: "2Gi" };
const storage = (limit: string, amounts = {}) => ({
  limits: { ...amounts, "ephemeral-storage": limit },
  requests: { ...amounts, "ephemeral-storage": "0" },
});

let client: KubeClient;

beforeAll(async () => {
  ({ client } = await sharedTestCluster());
  const labels = { "pod-security.kubernetes.io/enforce": "baseline" };
  await client.create(namespaces, { metadata: { name: namespace, labels } });
});

/** The pod as the server would store it. */
function stored(containers: readonly SandboxContainer[], more: Partial<InstanceSpec> = {}): Promise<Pod> {
  const resources = { instanceType: "datumcloud/d1-standard-2" };
  const runtime = { resources, sandbox: { containers, imagePullSecrets: [{ name: "registry" }] } };
  const built = buildPod(anInstance({ runtime, ...more }, { metadata: { namespace } }), RULES);
  if ("fault" in built) throw new Error(built.fault);
  return client.create(pods, built.pod, { dryRun: true });
}

it("takes one container with the whole size, variables, ports and volumes", async () => {
  const volumes = [
    { name: "config", configMap: { name: "settings" } },
    { name: "keys", secret: { secretName: "keys" } },
  ];
  const container: SandboxContainer = {
    ...app,
    env: [{ name: "KEY", valueFrom: { secretKeyRef: { name: "keys", key: "k" } } }],
    ports: [{ name: "http", port: 8080 }],
    volumeAttachments: volumes.map(({ name }) => ({ name, mountPath: `/etc/${name}` })),
  };
  const { metadata, spec, status } = await stored([container], { volumes });
  expect(metadata?.ownerReferences).toMatchObject([{ kind: "Instance", uid: "i-1", controller: true }]);
  expect(spec).toMatchObject({
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    volumes,
    containers: [{ resources: storage("10Gi", size), ports: [{ containerPort: 8080, protocol: "TCP" }] }],
  });
  expect(status?.qosClass).toBe("Guaranteed");
});

it("takes several containers that share the size", async () => {
  const { spec, status } = await stored([app, { ...app, name: "sidecar", resources: { limits } }]);
  expect(spec?.resources).toEqual({ requests: size, limits: size });
  expect(spec?.containers.map(({ resources }) => resources)).toEqual([
    storage(String(5 * 2 ** 30)),
    storage(String(5 * 2 ** 30), limits),
  ]);
  expect(status?.qosClass).toBe("Guaranteed");
});

it("takes containers with limits of their own", async () => {
  const { spec } = await stored([{ ...app, resources: { limits } }]);
  expect([spec?.resources, spec?.containers[0]?.resources]).toEqual([undefined, storage("10Gi", limits)]);
});
