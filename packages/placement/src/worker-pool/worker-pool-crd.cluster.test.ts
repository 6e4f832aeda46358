/** The CRD of WorkerPool on the real API server: what it takes, and in which words it refuses. */
import { toCustomResourceDefinition } from "@berth/host";
import { isApiError, namespaces } from "@berth/kube";
import { eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { tableOf } from "../../../kube/src/testing/kubectl.ts";
import { product } from "../api/group.ts";
import type { WorkerPoolSpec, WorkerPoolTemplate } from "./document.ts";
import { type WorkerPool, workerPoolKind, workerPools } from "./resource.ts";
import { installPools } from "./testing/pool-world.ts";

const namespace = "worker-pool-crd";
let cluster: TestCluster;

beforeAll(async () => {
  cluster = await sharedTestCluster();
  await installPools(cluster);
  await eventually(() => cluster.client.list(workerPools));
  await cluster.client.create(namespaces, { metadata: { name: namespace } });
});

function dryRun(spec: object): Promise<WorkerPool> {
  const full = { replicas: 1, ateomImage: "image", ...spec } as WorkerPoolSpec;
  return cluster.client.create(
    workerPools,
    { metadata: { namespace, name: "p" }, spec: full },
    { namespace, dryRun: true },
  );
}

const tolerations = (count: number) =>
  Array.from({ length: count }, (_, at) => ({ key: `k${at}`, operator: "Exists" }));

describe("the CRD of WorkerPool", () => {
  const refused: readonly [string, object, string][] = [
    [
      "negative replicas",
      { replicas: -1 },
      "spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0",
    ],
    [
      "an empty image",
      { ateomImage: "" },
      'spec.ateomImage: Invalid value: "": spec.ateomImage in body should be at least 1 chars long',
    ],
    ["17 tolerations", { template: { tolerations: tolerations(17) } }, "spec.template.tolerations: Too many"],
    ["no replicas", { replicas: undefined }, "spec.replicas: Required value"],
    ["no image", { ateomImage: undefined }, "spec.ateomImage: Required value"],
    [
      "another sandbox class",
      { sandboxClass: "runc" },
      'spec.sandboxClass: Unsupported value: "runc": supported values: "gvisor", "microvm"',
    ],
    [
      "an affinity term without a weight",
      {
        template: { nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [{ preference: {} }] } },
      },
      "preferredDuringSchedulingIgnoredDuringExecution[0].weight: Required value",
    ],
    [
      "what is no quantity",
      { template: { resources: { limits: { cpu: "much" } } } },
      "spec.template.resources.limits.cpu: Invalid value",
    ],
    [
      "a claim that stands twice",
      { template: { resources: { claims: [{ name: "a" }, { name: "a" }] } } },
      "spec.template.resources.claims[1]: Duplicate value",
    ],
  ];
  it.each(refused)("refuses %s", async (_, spec, words) => {
    await expect(dryRun(spec)).rejects.toThrow(words);
  });

  it("takes all that a template can say, quantities as numbers too, and fills in the class", async () => {
    const template: WorkerPoolTemplate = {
      nodeSelector: { a: "b" },
      tolerations: [
        ...tolerations(15),
        { key: "t", operator: "Equal", value: "v", effect: "NoExecute", tolerationSeconds: 60 },
      ],
      priorityClassName: "high",
      nodeAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: {
          nodeSelectorTerms: [
            { matchFields: [{ key: "metadata.name", operator: "In", values: ["n"] }] },
            { matchExpressions: [{ key: "zone", operator: "Exists" }] },
          ],
        },
        preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 100, preference: {} }],
      },
      resources: {
        requests: { cpu: "100m", memory: "1.5Gi", "example.com/gpu": 2 as unknown as string },
        limits: { memory: "2e9" },
        claims: [{ name: "gpu", request: "one" }],
      },
    };
    const { spec } = await dryRun({ template, sandboxConfigName: "c" });
    expect(spec).toEqual({
      replicas: 1,
      ateomImage: "image",
      sandboxClass: "gvisor",
      sandboxConfigName: "c",
      template,
    });
  });

  it("is found under its short name, and shows what the original shows", async () => {
    const { names } = toCustomResourceDefinition(workerPoolKind, product).spec;
    expect(names).toMatchObject({ plural: "workerpools", shortNames: ["workerpool"] });
    await cluster.client.create(
      workerPools,
      { metadata: { namespace, name: "shown" }, spec: { replicas: 3, ateomImage: "image" } },
      { namespace },
    );
    const path = `/apis/ate.dev/v1alpha1/namespaces/${namespace}/workerpools/shown`;
    const { columnDefinitions, rows } = await tableOf(cluster, path);
    expect(columnDefinitions.map(({ name, type }) => [name, type])).toEqual([
      ["Name", "string"],
      ["Desired", "integer"],
      ["Replicas", "integer"],
      ["Age", "date"],
    ]);
    expect(rows[0]?.cells.slice(0, 2)).toEqual(["shown", 3]);
  });
});

describe("a patch of its status", () => {
  it("is bound by the version that it names, and not by the uid", async () => {
    const { client } = cluster;
    const of = { namespace, name: "bound" };
    const spec = { replicas: 1, ateomImage: "image" };
    const { metadata: { uid = "", resourceVersion = "" } = {} } = await client.create(
      workerPools,
      { metadata: of, spec },
      { namespace },
    );
    const patch = (metadata: object, replicas: number): Promise<number | string | undefined> => {
      const body = { metadata, status: { replicas } };
      return client.patch(workerPools, of, { type: "merge", body }, { subresource: "status" }).then(
        ({ status }) => status?.replicas,
        (error: unknown) => (isApiError(error) ? error.failure.kind : String(error)),
      );
    };
    // The uid of another object is not looked at: it binds to nothing.
    expect(await patch({ uid: "00000000-0000-0000-0000-000000000000" }, 7)).toBe(7);
    expect(await patch({ uid, resourceVersion }, 8)).toBe("conflict");
  });
});
