import { describe, expect, it } from "vitest";
import type { Instance, InstanceSpec, SandboxContainer } from "../api/workload.ts";
import { RULES } from "../fleet/testing/rules.ts";
import { buildPod } from "./build.ts";
import { anInstance } from "./testing/instances.ts";

const instanceType = "datumcloud/d1-standard-2";
const container = (name: string, more: Partial<SandboxContainer> = {}): SandboxContainer => ({
  name,
  image: "registry.test/app:1",
  ...more,
});
const running = (
  containers: readonly SandboxContainer[],
  more: Partial<InstanceSpec> = {},
  type = instanceType,
) => anInstance({ runtime: { resources: { instanceType: type }, sandbox: { containers } }, ...more });
const built = (instance: Instance) => {
  const result = buildPod(instance, RULES);
  return "pod" in result ? result.pod : result.fault;
};
const size = { cpu: "1000m", memory: "2048Mi" };
const whole = { requests: size, limits: size };
/** Of one container. Nothing is set aside: a node would have room for few Pods. */
const sized = (amounts: object, storage = "10Gi") => ({
  requests: { ...amounts, "ephemeral-storage": "0" },
  limits: { ...amounts, "ephemeral-storage": storage },
});
const capabilities = {
  drop: ["ALL"],
  add: ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID"],
};

describe("the pod of an Instance", () => {
  it("has its name, labels, annotations, owner and size, and no rights in the cell", () => {
    expect(built(anInstance())).toEqual({
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        namespace: "ns-u",
        name: "w-us-dfw-0",
        labels: { app: "web", "compute.datumapis.com/instance-index": "0" },
        annotations: { team: "shop" },
        ownerReferences: [
          {
            apiVersion: "compute.datumapis.com/v1alpha",
            kind: "Instance",
            name: "w-us-dfw-0",
            uid: "i-1",
            controller: true,
            blockOwnerDeletion: true,
          },
        ],
      },
      spec: {
        restartPolicy: "Always",
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        securityContext: { seccompProfile: { type: "RuntimeDefault" } },
        containers: [
          {
            name: "app",
            image: "registry.test/app:1",
            resources: sized(size),
            securityContext: { allowPrivilegeEscalation: false, capabilities },
          },
        ],
      },
    });
  });

  it("has the capabilities and the storage that the Fleet says", () => {
    const pods = { ...RULES.pods, capabilities: [], ephemeralStorage: "3Gi" };
    const made = buildPod(running([container("a"), container("b")]), { ...RULES, pods });
    const storage = sized({}, String(1.5 * 2 ** 30));
    const securityContext = { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } };
    expect(made).toMatchObject({
      pod: {
        spec: { containers: ["a", "b"].map((name) => ({ name, resources: storage, securityContext })) },
      },
    });
    expect(JSON.stringify(made)).not.toContain('"add"');
  });

  it("has of its labels and annotations those that the Fleet lets through", () => {
    const { metadata, ...rest } = anInstance();
    const keys = { team: "shop", "app.kubernetes.io/name": "web", "sidecar.istio.io/inject": "true" };
    const given = { ...rest, metadata: { ...metadata, labels: keys, annotations: keys } };
    const kept = { team: "shop", "app.kubernetes.io/name": "web" };
    const made = built(given);
    expect(typeof made === "string" ? made : made.metadata).toMatchObject({
      labels: kept,
      annotations: kept,
    });
    expect(JSON.stringify(made)).not.toContain("istio");
  });

  it("has the variables, ports, mounts, volumes and pull secrets of its sandbox", () => {
    const env = [{ name: "KEY", valueFrom: { secretKeyRef: { name: "keys", key: "k" } } }];
    const volumes = [
      { name: "config", configMap: { name: "settings" } },
      { name: "keys", secret: { secretName: "keys", defaultMode: 0o400 } },
    ];
    const ports = [
      { name: "http", port: 8080 },
      { name: "dns", port: 53, protocol: "UDP" },
    ] as const;
    const volumeAttachments = volumes.map(({ name }) => ({ name, mountPath: `/etc/${name}` }));
    const imagePullSecrets = [{ name: "registry" }];
    const containers = [container("app", { env, ports, volumeAttachments })];
    const runtime = { resources: { instanceType }, sandbox: { containers, imagePullSecrets } };
    expect(built(anInstance({ volumes, runtime }))).toMatchObject({
      spec: {
        imagePullSecrets,
        volumes,
        containers: [
          {
            name: "app",
            env,
            ports: [
              { name: "http", containerPort: 8080, protocol: "TCP" },
              { name: "dns", containerPort: 53, protocol: "UDP" },
            ],
            volumeMounts: [
              { name: "config", mountPath: "/etc/config" },
              { name: "keys", mountPath: "/etc/keys" },
            ],
          },
        ],
      },
    });
  });
});

describe("the size of a pod", () => {
  const limits = { cpu: "250m", memory: "64Mi" };
  const half = String(5 * 2 ** 30);
  it.each<[string, readonly SandboxContainer[], unknown, readonly unknown[]]>([
    ["is the only container's", [container("a")], undefined, [sized(size)]],
    ["is shared by several", [container("a"), container("b")], whole, [sized({}, half), sized({}, half)]],
    [
      "is that of limits, where each container has both",
      [container("a", { resources: { limits } }), container("b", { resources: { limits } })],
      undefined,
      [sized(limits, half), sized(limits, half)],
    ],
    [
      "is that of the type, where one container has limits",
      [container("a", { resources: { limits, requests: limits } }), container("b")],
      whole,
      [sized(limits, half), sized({}, half)],
    ],
    [
      "is in whole units, as the claim has it",
      [container("a", { resources: { limits: { cpu: "0.0001", memory: "1M" } } })],
      undefined,
      [sized({ cpu: "1m", memory: "1Mi" })],
    ],
  ])("%s", (_, containers, ofPod, ofContainers) => {
    const pod = built(running(containers));
    expect(pod).toMatchObject({ spec: { containers: containers.map(({ name }) => ({ name })) } });
    const { spec } = typeof pod === "string" ? {} : pod;
    expect([spec?.resources, spec?.containers.map(({ resources }) => resources)]).toEqual([
      ofPod,
      ofContainers,
    ]);
  });

  it("needs no catalog where each container has limits", () => {
    expect(built(running([container("a", { resources: { limits } })], {}, "gone"))).toHaveProperty("spec");
  });
});

describe("an Instance that pods cannot run", () => {
  const disk = { name: "data", disk: {} };
  it.each<[string, Instance, string]>([
    [
      "a virtual machine",
      anInstance({ runtime: { resources: { instanceType }, virtualMachine: { volumeAttachments: [] } } }),
      "The provider pods runs sandboxes only. A virtual machine needs an external provider.",
    ],
    [
      "a disk",
      anInstance({ volumes: [disk] }),
      "The provider pods mounts no disks. Remove volume data, or use an external provider.",
    ],
    [
      "a volume without a path",
      running([container("app", { volumeAttachments: [{ name: "config" }] })]),
      "Container app attaches volume config without a mountPath. Add one.",
    ],
    [
      "a type that the catalog does not have",
      running([container("app")], {}, "constructor"),
      "The catalog of this cell has no instance type constructor. Choose another type.",
    ],
    [
      "a limit of 0",
      running([container("app", { resources: { limits: { cpu: "0", memory: "1Gi" } } })]),
      'spec.runtime.sandbox.containers[0].resources.limits[cpu]: Invalid value: "0": must be a quantity above 0, and at most 1P',
    ],
  ])("has a fault: %s", (_, instance, fault) => {
    expect(buildPod(instance, RULES)).toEqual({ fault });
  });
});
