/** Instances and their Pods, as tests of the provider `pods` need them. */
import type { Pod } from "@berth/kube";
import type { Instance, InstanceSpec } from "../../api/workload.ts";
import { RULES } from "../../fleet/testing/rules.ts";
import { buildPod } from "../build.ts";

export const CREATED = "2026-01-01T00:00:00Z";
export const createdMs: number = Date.parse(CREATED);

/** An Instance with one container, as its deployment creates it. */
export function anInstance(spec: Partial<InstanceSpec> = {}, more: Omit<Instance, "spec"> = {}): Instance {
  return {
    ...more,
    metadata: {
      namespace: "ns-u",
      name: "w-us-dfw-0",
      uid: "i-1",
      labels: { app: "web", "compute.datumapis.com/instance-index": "0" },
      annotations: { team: "shop" },
      ...more.metadata,
    },
    spec: {
      runtime: {
        resources: { instanceType: "datumcloud/d1-standard-2" },
        sandbox: { containers: [{ name: "app", image: "registry.test/app:1" }] },
      },
      networkInterfaces: [{ network: { name: "default" } }],
      controller: { templateHash: "v1-abc" },
      ...spec,
    },
  };
}

/** The Pod that Berth creates for this Instance, as the API server stores it. */
export function podOf(instance: Instance, status: Pod["status"] = { phase: "Pending" }, node?: string): Pod {
  const built = buildPod(instance, RULES);
  if ("fault" in built) throw new Error(built.fault);
  const { metadata, spec = { containers: [] } } = built.pod;
  return {
    ...built.pod,
    metadata: { ...metadata, uid: "p-1", creationTimestamp: CREATED },
    spec: { ...spec, ...(node && { nodeName: node }) },
    ...(status && { status }),
  };
}
