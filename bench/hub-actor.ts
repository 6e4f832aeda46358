/** Plays Berth in a cell: it renews the Lease, and answers each deployment at once with as many Ready Instances. */
import { type Instance, instances, type WorkloadDeployment, workloadDeployments } from "@berth/fleet";
import { isApiError, type KubeClient, leases, namespaces } from "@berth/kube";
import { buildInstance } from "../packages/fleet/src/deployment/build.ts";
import { Actor } from "../packages/fleet/src/testing/actor.ts";

/** Of Berth, in each cluster. */
export const HOME = "berth-system";
/** As often as Berth renews its Lease, ms. */
const RENEW_MS = 5_000;

/** @param client stays the caller's. @param names of all cells in this cluster. */
export async function playCells(client: KubeClient, names: readonly string[]): Promise<AsyncDisposable> {
  await using owned = new AsyncDisposableStack();
  for (const name of names) owned.use(await renew(client, name));
  const actor = owned.use(new Actor(client));
  await actor.follow({ resource: workloadDeployments, act: (it) => answer(client, it) });
  return owned.move();
}

async function answer(client: KubeClient, deployment: WorkloadDeployment): Promise<void> {
  const { metadata, spec, status } = deployment;
  const { generation = 0, annotations, deletionTimestamp } = metadata ?? {};
  const isAnswered = status?.observedGeneration === generation;
  if (spec === undefined || isAnswered || deletionTimestamp !== undefined) return;
  const count = spec.scaleSettings.minReplicas ?? 0;
  const start = Number(annotations?.["berth.dev/ordinal-start"] ?? 0);
  for (let at = 0; at < count; at++) await makeInstance(client, deployment, start + at);
  await client.patch(
    workloadDeployments,
    { namespace: metadata?.namespace ?? "", name: metadata?.name ?? "" },
    { type: "merge", body: { status: statusOf(deployment, count) } },
    { subresource: "status" },
  );
}

/** What Berth in a cell says of a deployment with so many Ready Instances. */
export function statusOf({ metadata }: WorkloadDeployment, ready: number): object {
  const { generation = 0, annotations } = metadata ?? {};
  const is = ready > 0 ? "True" : "False";
  return {
    observedGeneration: generation,
    observedSourceGeneration: Number(annotations?.["compute.datumapis.com/source-generation"] ?? 0),
    replicas: ready,
    currentReplicas: ready,
    updatedReplicas: ready,
    desiredReplicas: ready,
    readyReplicas: ready,
    conditions: ["Available", "ReplicasReady"].map((type) => conditionOf(type, is, generation)),
  };
}

async function makeInstance(
  client: KubeClient,
  deployment: WorkloadDeployment,
  ordinal: number,
): Promise<void> {
  const built: Instance = buildInstance(deployment, {
    ordinal,
    templateHash: "bench",
    location: undefined,
    hasNetwork: false,
    hasQuota: false,
  });
  const { metadata } = built;
  try {
    // Without the finalizer of Berth, which nothing here would take off.
    const made = await client.create(instances, { ...built, metadata: { ...metadata, finalizers: [] } });
    const of = { namespace: made.metadata?.namespace ?? "", name: made.metadata?.name ?? "" };
    const conditions = ["Ready", "Running", "Programmed"].map((type) => conditionOf(type, "True", 1));
    await client.patch(
      instances,
      of,
      { type: "merge", body: { status: { conditions } } },
      { subresource: "status" },
    );
  } catch (error) {
    if (!isApiError(error, "alreadyExists")) throw error;
  }
}

function conditionOf(type: string, status: string, observedGeneration: number): object {
  const reason = status === "True" ? "Available" : "Pending";
  const lastTransitionTime = new Date().toISOString();
  return { type, status, reason, message: "the benchmark says so", lastTransitionTime, observedGeneration };
}

async function renew(client: KubeClient, cell: string): Promise<AsyncDisposable> {
  const name = `compute-cell-${cell}`;
  await client.create(namespaces, { metadata: { name: HOME } }).catch(ignoreExisting);
  const spec = (): object => ({
    holderIdentity: "bench",
    leaseDurationSeconds: 15,
    renewTime: new Date().toISOString().replace("Z", "000Z"),
  });
  await client.create(leases, { metadata: { namespace: HOME, name }, spec: spec() }).catch(ignoreExisting);
  let last = Promise.resolve();
  const tick = async (): Promise<void> => {
    const body = { spec: spec() };
    // A cell that is frozen or stopped is part of the measurement.
    await client.patch(leases, { namespace: HOME, name }, { type: "merge", body }).catch(() => undefined);
  };
  const timer = setInterval(() => {
    last = tick();
  }, RENEW_MS);
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await last;
    },
  };
}

function ignoreExisting(error: unknown): void {
  if (!isApiError(error, "alreadyExists")) throw error;
}
