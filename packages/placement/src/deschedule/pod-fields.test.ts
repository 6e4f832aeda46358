import type { Pod } from "@berth/kube";
import { aPod } from "@berth/testcluster";
import { expect, it } from "vitest";
import { podProjection, slimPod } from "./pod-fields.ts";

const IDENTITY = { uid: "u", resourceVersion: "7", creationTimestamp: "2026-01-01T00:00:00Z" };

/** Has every field that descheduling reads, and others. */
const whole = (): Pod =>
  aPod("web")
    .realistic()
    .on("n1")
    .stored(IDENTITY)
    .ownedBy("ReplicaSet", "web-1")
    .ready()
    .with((pod) => ({
      ...pod,
      metadata: {
        ...pod.metadata,
        labels: { app: "web" },
        annotations: { "berth.dev/deschedule": "ignore", other: "x".repeat(1000) },
        finalizers: ["example.com/x"],
      },
      spec: {
        ...pod.spec,
        nodeSelector: { gpu: "yes" },
        affinity: {
          nodeAffinity: {
            preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, preference: {} }],
            requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{}] },
          },
          podAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] },
        },
        tolerations: [{ key: "a", operator: "Exists" }],
        priority: 5,
        resources: { requests: { cpu: "2" }, limits: { cpu: "3" } },
        topologySpreadConstraints: [
          { maxSkew: 1, topologyKey: "zone", whenUnsatisfiable: "ScheduleAnyway" },
          { maxSkew: 2, topologyKey: "zone", whenUnsatisfiable: "DoNotSchedule" },
        ],
        containers: [
          {
            name: "main",
            image: "registry.test/app:1",
            env: [{ name: "A", value: "b" }],
            resources: { requests: { cpu: "1" }, limits: { cpu: "2" } },
            ports: [{ containerPort: 80 }, { containerPort: 81, hostPort: 81 }],
          },
        ],
        initContainers: [{ name: "proxy", restartPolicy: "Always" }],
        volumes: [
          { name: "a", emptyDir: {} },
          { name: "b", configMap: { name: "b" } },
          { name: "c", ephemeral: { volumeClaimTemplate: { spec: {} } } },
        ],
      },
    }))
    .build();

const slim = {
  metadata: {
    name: "web",
    namespace: "default",
    ...IDENTITY,
    labels: { app: "web" },
    ownerReferences: [
      {
        apiVersion: "apps/v1",
        kind: "ReplicaSet",
        name: "web-1",
        uid: "built-replicaset-web-1",
        controller: true,
      },
    ],
    annotations: { "berth.dev/deschedule": "ignore" },
  },
  spec: {
    nodeName: "n1",
    nodeSelector: { gpu: "yes" },
    tolerations: [{ key: "a", operator: "Exists" }],
    priority: 5,
    affinity: {
      nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{}] } },
    },
    topologySpreadConstraints: [{ maxSkew: 2, topologyKey: "zone", whenUnsatisfiable: "DoNotSchedule" }],
    volumes: [
      { name: "emptyDir", emptyDir: {} },
      { name: "ephemeral", ephemeral: {} },
    ],
    containers: [
      {
        name: "all",
        resources: { requests: { cpu: "2000m" } },
        ports: [{ containerPort: 81, hostPort: 81 }],
      },
    ],
  },
  status: { phase: "Running", conditions: [{ type: "Ready", status: "True" }] },
};

it("keeps of a pod what descheduling reads, and nothing else", () => {
  expect(slimPod(whole())).toMatchObject(slim);
  const { schedulerName: _, priorityClassName: __, ...spec } = slimPod(whole()).spec ?? {};
  expect({ ...slimPod(whole()), spec }).toEqual(slim);
});

it("keeps the same when texts are shared, and when it is done again", () => {
  const project = podProjection();
  expect(project(whole())).toEqual(slimPod(whole()));
  expect(project(project(whole()))).toEqual(slimPod(whole()));
});
