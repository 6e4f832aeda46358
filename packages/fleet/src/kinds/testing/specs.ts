/** Specs with every field of the types, for what reads and writes them. */
import type { DeploymentSpec, InstanceSpec, ScaleSettings, WorkloadSpec } from "../../api/workload.ts";

/** The least that an Instance needs. */
export const smallestInstance: InstanceSpec = {
  runtime: {
    resources: { instanceType: "datumcloud/d1-standard-2" },
    sandbox: { containers: [{ name: "web", image: "registry.test/web:1" }] },
  },
  networkInterfaces: [{ network: { name: "default" } }],
};

export const fullSandbox: InstanceSpec = {
  runtime: {
    resources: { instanceType: "datumcloud/d1-standard-2", requests: { cpu: 1, memory: "2Gi" } },
    sandbox: {
      containers: [
        {
          name: "web",
          image: "registry.test/web:1",
          env: [
            { name: "PLAIN", value: "1" },
            {
              name: "OF_CONFIG",
              valueFrom: { configMapKeyRef: { name: "settings", key: "a", optional: true } },
            },
            { name: "OF_SECRET", valueFrom: { secretKeyRef: { name: "token", key: "b", optional: false } } },
            { name: "OF_POD", valueFrom: { fieldRef: { apiVersion: "v1", fieldPath: "metadata.name" } } },
            {
              name: "OF_RESOURCE",
              valueFrom: {
                resourceFieldRef: { containerName: "web", resource: "limits.cpu", divisor: "1m" },
              },
            },
          ],
          resources: { limits: { cpu: "500m", memory: "1Gi" }, requests: { cpu: "100m" } },
          volumeAttachments: [{ name: "settings", mountPath: "/settings" }, { name: "token" }],
          ports: [
            { name: "http", port: 8080, protocol: "TCP" },
            { name: "dns", port: 53, protocol: "UDP" },
          ],
        },
      ],
      imagePullSecrets: [{ name: "registry" }],
    },
  },
  networkInterfaces: [
    {
      network: { namespace: "shared", name: "default" },
      networkPolicy: {
        ingress: [
          {
            ports: [
              { protocol: "TCP", port: 8000, endPort: 8100 },
              { protocol: "SCTP", port: "dns" },
            ],
            from: [{ ipBlock: { cidr: "192.0.2.0/24", except: ["192.0.2.1/32"] } }],
          },
        ],
      },
    },
  ],
  volumes: [
    {
      name: "settings",
      configMap: {
        name: "settings",
        defaultMode: 0o644,
        items: [{ key: "a", path: "a.txt", mode: 0o400 }],
        optional: true,
      },
    },
    {
      name: "token",
      secret: {
        secretName: "token",
        defaultMode: 0o400,
        items: [{ key: "b", path: "b", mode: 0o400 }],
        optional: false,
      },
    },
  ],
  location: { name: "dfw", namespace: "locations" },
  controller: { templateHash: "v1-1", schedulingGates: [{ name: "Network" }, { name: "Quota" }] },
};

export const fullMachine: InstanceSpec = {
  runtime: {
    resources: { instanceType: "datumcloud/d1-standard-2" },
    virtualMachine: {
      volumeAttachments: [{ name: "boot" }, { name: "data", mountPath: "/data" }],
      ports: [{ name: "ssh", port: 22, protocol: "TCP" }],
    },
  },
  networkInterfaces: [{ network: { name: "default" } }],
  volumes: [
    {
      name: "boot",
      disk: {
        deviceName: "boot",
        template: {
          metadata: { name: "boot", namespace: "n", labels: { a: "b" }, annotations: { c: "d" } },
          spec: {
            type: "pd-standard",
            resources: { requests: { storage: "25Gi" } },
            populator: { image: { name: "datumcloud/ubuntu-2204-lts" } },
          },
        },
      },
    },
    {
      name: "data",
      disk: {
        template: {
          metadata: {},
          spec: { type: "pd-standard", populator: { filesystem: { type: "ext4" } } },
        },
      },
    },
  ],
};

const fullScale: ScaleSettings = {
  minReplicas: 3,
  maxReplicas: 10,
  metrics: [
    { resource: { name: "cpu", target: { value: "2", averageValue: 1, averageUtilization: 50 } } },
    {},
  ],
  instanceManagementPolicy: "OrderedReady",
};

export const fullWorkload: WorkloadSpec = {
  template: { metadata: { labels: { a: "b" }, annotations: { c: "d" } }, spec: fullSandbox },
  placements: [{ name: "us", cityCodes: ["DFW", "ORD"], scaleSettings: fullScale }],
};

export const smallestWorkload: WorkloadSpec = {
  template: { spec: smallestInstance },
  placements: [{ name: "us", cityCodes: ["DFW"], scaleSettings: { minReplicas: 1 } }],
};

export const fullDeployment: DeploymentSpec = {
  workloadRef: { name: "w", uid: "5c2e7a4e-0000-4000-8000-000000000000" },
  placementName: "us",
  cityCode: "DFW",
  template: { spec: fullMachine },
  scaleSettings: fullScale,
};
