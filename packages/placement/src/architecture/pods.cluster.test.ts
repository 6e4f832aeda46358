/** What the real API server makes of the patches of pods: at creation, and of pods that are stored and gated. */

import { applyPatch } from "@berth/host";
import { ApiError, isApiError, type JsonPatchOperation, namespaces, type Pod, pods } from "@berth/kube";
import { systemClock } from "@berth/runtime";
import { aPod, type PodBuilder, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { clientOf, lookingAt } from "../node/testing/object-run.ts";
import { admitPod } from "./admit.ts";
import { decidePod } from "./decide-pod.ts";
import { podRules } from "./pod-reconciler.ts";
import { type KnownImages, sightOf } from "./testing/observations.ts";
import { type PolicyInit, policiesOf, policyInForce } from "./testing/policies.ts";
import { arch, GATE, gatedBy, os, PREFERRED, REQUIRED, requiringTerms, tolerating } from "./testing/specs.ts";

const KNOWN: KnownImages = { multi: ["amd64", "arm64"], amd: ["amd64"] };
const both: PolicyInit = { mode: "Both", preferences: [{ architecture: "arm64", weight: 30 }] };

let cluster: TestCluster;
let namespace: string;
let count = 0;

beforeAll(async () => {
  cluster = await sharedTestCluster();
  namespace = "architecture-pods";
  await cluster.client.create(namespaces, { metadata: { name: namespace } });
});

/** As the webhook would have it stored. */
function admitted(pod: PodBuilder, images: KnownImages, policy = both): Pod {
  const object = pod.build();
  const { policies } = policiesOf({ p: policy });
  const answer = admitPod(
    { policies, namespaceLabels: () => ({}), observations: sightOf(images), now: Date.now() },
    { kind: { kind: "Pod" }, operation: "CREATE", object, namespace },
  );
  if (!answer.allowed) throw new Error(answer.message);
  return applyPatch(object, answer.patch) as Pod;
}

const aName = (): string => `p-${++count}`;
const create = (pod: Pod): Promise<Pod> => cluster.client.create(pods, pod, { namespace });

function patch(pod: Pod, body: readonly JsonPatchOperation[]): Promise<Pod> {
  const name = pod.metadata?.name ?? "";
  return cluster.client.patch(pods, { namespace, name }, { type: "json", body });
}

function decisionOf(pod: Pod, policy = both, images = KNOWN): readonly JsonPatchOperation[] {
  const seen = { policy: policyInForce(policy), keys: ["supported-arch"], observations: sightOf(images) };
  const { patch: body } = decidePod({ pod, ...seen, now: Date.now() });
  if (body === undefined) throw new Error("there is nothing to change");
  return body;
}

/** With everything that a patch could lose: gates of others, a sidecar, user affinity, fields that are rarely set. */
function rich(image: string): PodBuilder {
  const podAffinityTerm = { topologyKey: "zone", labelSelector: {}, matchLabelKeys: ["a"] };
  const { affinity } = requiringTerms({ matchExpressions: [inZone] }, { matchFields: [byName] }, {});
  const spec = {
    hostUsers: false,
    initContainers: [{ name: "mesh", image, restartPolicy: "Always" }],
    affinity: { ...affinity, podAntiAffinity: { [PREFERRED]: [{ weight: 1, podAffinityTerm }] } },
  };
  const pod = aPod(aName()).in(namespace).image(image).tolerating({ key: "x", operator: "Exists" });
  const made = pod.with((it) => ({ ...it, spec: { containers: [], ...it.spec, ...spec } }));
  return gatedBy(made, { name: "kueue.x-k8s.io/admission" });
}

const inZone = { key: "zone", operator: "In", values: ["a"] };
const byName = { key: "metadata.name", operator: "In", values: ["n"] };
const ours = [arch("amd64", "arm64"), os];

describe("the API server", () => {
  it("A-B11 stores a pod as the webhook has narrowed it", async () => {
    const { spec } = await create(admitted(aPod(aName()).in(namespace).image("multi"), KNOWN));
    expect(spec?.schedulingGates).toBeUndefined();
    expect(spec?.affinity?.nodeAffinity).toEqual({
      [REQUIRED]: { nodeSelectorTerms: [{ matchExpressions: ours }] },
      [PREFERRED]: [{ weight: 30, preference: { matchExpressions: [arch("arm64")] } }],
    });
    expect(spec?.tolerations).toEqual(expect.arrayContaining([tolerating("amd64"), tolerating("arm64")]));
  });

  it("A-B9 takes tolerations, affinity and gate of a held pod in one patch, and keeps every other byte", async () => {
    const stored = await create(admitted(rich("multi"), {}));
    expect(stored.spec?.schedulingGates).toEqual([{ name: "kueue.x-k8s.io/admission" }, GATE]);
    const { spec } = await patch(stored, decisionOf(stored));
    const { tolerations, schedulingGates, affinity, ...rest } = spec ?? { containers: [] };
    const sent = stored.spec ?? { containers: [] };
    const { tolerations: had, schedulingGates: _, affinity: user, ...before } = sent;
    expect(rest).toEqual(before);
    expect(schedulingGates).toEqual([{ name: "kueue.x-k8s.io/admission" }]);
    expect(tolerations).toEqual([...(had ?? []), tolerating("amd64"), tolerating("arm64")]);
    expect(affinity?.podAntiAffinity).toEqual(user?.podAntiAffinity);
    expect(affinity?.nodeAffinity?.[REQUIRED]?.nodeSelectorTerms).toEqual([
      { matchExpressions: [inZone, ...ours] },
      { matchFields: [byName], matchExpressions: ours },
      {},
    ]);
  });

  it("A-B9 takes tolerations of a pod that is not gated, and keeps every other byte", async () => {
    const stored = await create(rich("amd").build());
    const { spec } = await patch(stored, decisionOf(stored, { mode: "Taint" }));
    const tolerations = [...(stored.spec?.tolerations ?? []), tolerating("amd64")];
    expect(spec).toEqual({ ...stored.spec, tolerations });
  });

  it("refuses the patch of a version that is no more", async () => {
    const stored = await create(admitted(rich("multi"), {}));
    const body = decisionOf(stored);
    await patch(stored, [{ op: "add", path: "/metadata/labels", value: { touched: "yes" } }]);
    const error: unknown = await patch(stored, body).catch((it: unknown) => it);
    expect(isApiError(error, "invalid", "conflict")).toBe(true);
    const failure = error instanceof ApiError ? error.failure : undefined;
    const causes = failure !== undefined && "causes" in failure ? failure.causes : [];
    expect(causes.filter(({ field }) => field !== undefined && field !== "")).toEqual([]);
  });
});

describe("the reconciler, with a real API server", () => {
  interface Run {
    readonly stored: Pod;
    readonly reconcile: () => Promise<Pod>;
    readonly requests: () => number;
    know(images: KnownImages): void;
    read(): Promise<void>;
  }

  async function aRun(pod: Pod): Promise<Run> {
    const stored = await create(pod);
    const name = stored.metadata?.name ?? "";
    let seen = stored;
    let images: KnownImages = {};
    let requests = 0;
    const look = lookingAt({
      rules: podRules({
        namespaceLabels: () => ({}),
        policies: () => policiesOf({ p: both }),
        observations: { look: (question) => sightOf(images).look(question) },
        demand: { want: () => undefined },
        clock: systemClock,
      }),
      objects: { get: () => seen },
      client: clientOf({
        patch(of, body, subresource) {
          if (subresource === undefined) requests += 1;
          return cluster.client.patch(
            pods,
            { namespace, name: of },
            body,
            subresource ? { subresource } : {},
          );
        },
      }),
      clock: systemClock,
    });
    const get = (): Promise<Pod> => cluster.client.get(pods, { namespace, name });
    return {
      stored,
      requests: () => requests,
      know: (known) => void (images = known),
      read: async () => void (seen = await get()),
      reconcile: async () => {
        await look(namespace, name);
        return get();
      },
    };
  }

  it("behind the server: its patch meets another version, and the next one lands", async () => {
    const run = await aRun(admitted(aPod(aName()).in(namespace).image("amd"), {}));
    await patch(run.stored, [{ op: "add", path: "/metadata/labels", value: { touched: "yes" } }]);
    run.know(KNOWN);
    expect((await run.reconcile()).spec?.schedulingGates).toEqual([GATE]);
    await run.read();
    expect((await run.reconcile()).spec?.schedulingGates).toBeUndefined();
    expect(run.requests()).toBe(2);
  });

  it("I-11 has the server store the condition of a pod that can run nowhere, and take it off again", async () => {
    const selecting = aPod(aName()).in(namespace).image("amd").selecting({ "kubernetes.io/arch": "arm64" });
    const run = await aRun(admitted(selecting, {}));
    run.know(KNOWN);
    const { status } = await run.reconcile();
    const others = run.stored.status?.conditions ?? [];
    expect(others).not.toEqual([]);
    const said = {
      type: "berth.dev/ArchitectureFits",
      status: "False",
      reason: "RequiredArchitectureConflict",
    };
    expect(status?.conditions).toEqual(expect.arrayContaining([...others, expect.objectContaining(said)]));
    run.know({ amd: ["arm64"] });
    await run.read();
    expect((await run.reconcile()).status?.conditions).toEqual(others);
    await run.read();
    expect((await run.reconcile()).spec?.schedulingGates).toBeUndefined();
  });
});
