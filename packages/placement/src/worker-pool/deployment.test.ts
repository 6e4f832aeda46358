import { describe, expect, it } from "vitest";
import { buildDeployment, PR_134_POOLS } from "./deployment.ts";
import type { WorkerPoolSpec } from "./document.ts";
import { toStoredPool } from "./resource.ts";

const pool = (spec: Partial<WorkerPoolSpec> = {}) => ({
  name: "p",
  namespace: "n",
  uid: "u",
  spec: { replicas: 2, ateomImage: "image", ...spec },
});
const MAIN = { workerPoolUid: false };

describe("buildDeployment", () => {
  it("is the original's: what the template leaves empty is sent empty or not at all", () => {
    expect(buildDeployment(pool(), MAIN)).toEqual({
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: {
        name: "p-deployment",
        namespace: "n",
        ownerReferences: [
          {
            apiVersion: "ate.dev/v1alpha1",
            kind: "WorkerPool",
            name: "p",
            uid: "u",
            controller: true,
            blockOwnerDeletion: true,
          },
        ],
      },
      spec: {
        replicas: 2,
        selector: { matchLabels: { "ate.dev/worker-pool": "p" } },
        template: {
          metadata: { labels: { "ate.dev/worker-pool": "p" } },
          spec: {
            securityContext: { runAsUser: 0, runAsGroup: 0 },
            priorityClassName: "",
            affinity: {},
            containers: [
              {
                name: "ateom",
                image: "image",
                args: ["--pod-uid=$(POD_UID)"],
                env: [{ name: "POD_UID", valueFrom: { fieldRef: { fieldPath: "metadata.uid" } } }],
                securityContext: { privileged: true, runAsUser: 0, runAsGroup: 0 },
                resources: {},
                volumeMounts: [{ name: "run-ateom", mountPath: "/var/lib/ateom-gvisor" }],
              },
            ],
            volumes: [
              { name: "run-ateom", hostPath: { path: "/var/lib/ateom-gvisor", type: "DirectoryOrCreate" } },
            ],
          },
        },
      },
    });
  });

  it("has the uid of the pool and the wait only when they are asked for, and neither in the selector", () => {
    const plain = buildDeployment(pool(), MAIN);
    const { spec } = buildDeployment(pool(), PR_134_POOLS);
    expect(spec.selector).toEqual(plain.spec.selector);
    expect(spec.template.metadata?.labels).toEqual({
      "ate.dev/worker-pool": "p",
      "ate.dev/worker-pool-uid": "u",
    });
    expect(spec.template.spec?.initContainers).toEqual([
      {
        name: "wait-for-atelet",
        image: "busybox:1.36",
        command: ["sh", "-c", 'until nc -z "$HOST_IP" 8085; do sleep 1; done'],
        env: [{ name: "HOST_IP", valueFrom: { fieldRef: { fieldPath: "status.hostIP" } } }],
      },
    ]);
    expect({ ...spec.template.spec, initContainers: undefined }).toEqual(plain.spec.template.spec);
  });

  it("sends no empty node selector or tolerations: they are pruned by their absence", () => {
    const template = { nodeSelector: {}, tolerations: [] };
    expect(buildDeployment(pool({ template }), MAIN)).toEqual(buildDeployment(pool(), MAIN));
  });

  it("has microvm win over a node selector of the template", () => {
    const template = { nodeSelector: { "ate.dev/sandboxClass": "gvisor", a: "b" } };
    const { spec } = buildDeployment(pool({ sandboxClass: "microvm", template }), MAIN);
    expect(spec.template.spec?.nodeSelector).toEqual({ "ate.dev/sandboxClass": "microvm", a: "b" });
  });
});

describe("toStoredPool", () => {
  it("knows none that was never stored", () => {
    expect(toStoredPool({ metadata: { name: "p", namespace: "n" }, spec: pool().spec })).toBeUndefined();
    expect(toStoredPool({ metadata: { name: "p", namespace: "n", uid: "u" } })).toBeUndefined();
  });
});
