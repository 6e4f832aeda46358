/** Plays Berth in a cell: it renews the Lease, and answers each deployment at once with as many Ready Instances. */
import { isApiError, type KubeClient, leases, namespaces } from "@berth/kube";
import { sleep, systemClock } from "@berth/runtime";
import { annotations as keys, labels, ordinalOf } from "../api/keys.ts";
import { type Instance, instances, type WorkloadDeployment, workloadDeployments } from "../api/workload.ts";
import { buildInstance } from "../deployment/build.ts";
import { templateHash } from "../deployment/template-hash.ts";
import { Actor } from "./actor.ts";

/** Of Berth, in each cluster. */
export const HOME = "berth-system";
/** As often as Berth renews its Lease, ms. */
const RENEW_MS = 5_000;

export interface PlayOptions {
  /** Default 5,000 ms. */
  readonly renewMs?: number;
  /** How long each Instance takes until it is Ready, ms. They start one after the other. Default 0. */
  readonly startMs?: number;
}

export interface PlayedCells extends AsyncDisposable {
  /** Looks at all deployments again. */
  again(): void;
  /** Deployments get no Instances, and their Lease is renewed. */
  pause(): void;
  resume(): void;
}

/** @param client stays the caller's. @param names of all cells in this cluster. */
export async function playCells(
  client: KubeClient,
  names: readonly string[],
  { renewMs = RENEW_MS, startMs = 0 }: PlayOptions = {},
): Promise<PlayedCells> {
  await using owned = new AsyncDisposableStack();
  for (const name of names) owned.use(await renew(client, name, renewMs));
  const actor = owned.use(new Actor(client));
  await actor.follow({
    resource: workloadDeployments,
    act: (it) => answer(client, it, startMs),
    onChange({ type, object }) {
      if (type === "deleted") void removeInstances(client, object, 0).catch(() => undefined);
    },
  });
  const kept = owned.move();
  return {
    again: () => actor.again(),
    pause: () => actor.pause(),
    resume: () => actor.resume(),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

async function answer(client: KubeClient, deployment: WorkloadDeployment, startMs: number): Promise<void> {
  const { metadata, spec, status } = deployment;
  const { generation = 0, annotations, deletionTimestamp } = metadata ?? {};
  const source = Number(annotations?.[keys.sourceGeneration] ?? 0);
  const isAnswered = status?.observedGeneration === generation && status.observedSourceGeneration === source;
  if (spec === undefined || isAnswered || deletionTimestamp !== undefined) return;
  const count = annotations?.[keys.hold] === undefined ? (spec.scaleSettings.minReplicas ?? 0) : 0;
  const start = Number(annotations?.[keys.ordinalStart] ?? 0);
  // The first generation of a deployment has none yet.
  if (generation > 1) await removeInstances(client, deployment, start + count);
  for (let at = 0; at < count; at++) {
    if (startMs > 0 && status === undefined) await sleep(systemClock, startMs);
    await makeInstance(client, deployment, start + at);
  }
  try {
    await client.patch(
      workloadDeployments,
      { namespace: metadata?.namespace ?? "", name: metadata?.name ?? "" },
      { type: "merge", body: { metadata: { uid: metadata?.uid }, status: statusOf(deployment, count) } },
      { subresource: "status" },
    );
  } catch (error) {
    if (!isApiError(error, "notFound", "uidMismatch")) throw error;
    // It went meanwhile, and nothing else would remove what was just made.
    await removeInstances(client, deployment, 0);
  }
}

/** What Berth in a cell says of a deployment with so many Ready Instances. */
export function statusOf({ metadata }: WorkloadDeployment, ready: number): object {
  const { generation = 0, annotations } = metadata ?? {};
  const is = ready > 0 ? "True" : "False";
  return {
    observedGeneration: generation,
    observedSourceGeneration: Number(annotations?.[keys.sourceGeneration] ?? 0),
    replicas: ready,
    currentReplicas: ready,
    updatedReplicas: ready,
    desiredReplicas: ready,
    readyReplicas: ready,
    conditions: ["Available", "ReplicasReady"].map((type) => conditionOf(type, is, generation)),
  };
}

/** A Ready one, unless there is one of its name. */
export async function makeInstance(
  client: KubeClient,
  deployment: WorkloadDeployment,
  ordinal: number,
): Promise<void> {
  const built: Instance = buildInstance(deployment, {
    ordinal,
    templateHash: deployment.spec === undefined ? "" : templateHash(deployment.spec.template),
    location: undefined,
    hasNetwork: false,
    hasQuota: false,
  });
  const { metadata } = built;
  try {
    // Without the finalizer of Berth, which nothing here would take off.
    const made = await client.create(instances, { ...built, metadata: { ...metadata, finalizers: [] } });
    await reportInstance(client, made, "True");
  } catch (error) {
    if (!isApiError(error, "alreadyExists")) throw error;
  }
}

/** Writes its conditions. */
export async function reportInstance(
  client: KubeClient,
  { metadata }: Instance,
  ready: "True" | "False",
): Promise<void> {
  const conditions = ["Ready", "Running", "Programmed"].map((type) => conditionOf(type, ready, 1));
  await client.patch(
    instances,
    { namespace: metadata?.namespace ?? "", name: metadata?.name ?? "" },
    { type: "merge", body: { status: { conditions } } },
    { subresource: "status" },
  );
}

/** Those from this ordinal on. */
async function removeInstances(
  client: KubeClient,
  { metadata }: WorkloadDeployment,
  from: number,
): Promise<void> {
  const { namespace = "", uid } = metadata ?? {};
  const { items } = await client.list(instances, {
    namespace,
    labelSelector: `${labels.deploymentUid}=${uid}`,
  });
  for (const { metadata: of } of items)
    if (ordinalOf(of?.name ?? "") >= from)
      await client.delete(instances, { namespace, name: of?.name ?? "" }).catch(ignore("notFound"));
}

function conditionOf(type: string, status: string, observedGeneration: number): object {
  const reason = status === "True" ? "Available" : "Pending";
  const lastTransitionTime = new Date().toISOString();
  return { type, status, reason, message: "the played cell says so", lastTransitionTime, observedGeneration };
}

async function renew(client: KubeClient, cell: string, renewMs: number): Promise<AsyncDisposable> {
  const name = `compute-cell-${cell}`;
  await client.create(namespaces, { metadata: { name: HOME } }).catch(ignore("alreadyExists"));
  const spec = (): object => ({
    holderIdentity: "played",
    leaseDurationSeconds: 15,
    renewTime: new Date().toISOString().replace("Z", "000Z"),
  });
  await client
    .create(leases, { metadata: { namespace: HOME, name }, spec: spec() })
    .catch(ignore("alreadyExists"));
  const stop = new AbortController();
  const renewing = async (): Promise<void> => {
    while (await sleep(systemClock, renewMs, stop.signal)) {
      const body = { spec: spec() };
      // A cell that is frozen or stopped is part of the test.
      await client.patch(leases, { namespace: HOME, name }, { type: "merge", body }).catch(() => undefined);
    }
  };
  const ended = renewing();
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await ended;
    },
  };
}

function ignore(failure: "alreadyExists" | "notFound"): (error: unknown) => void {
  return (error) => {
    if (!isApiError(error, failure)) throw error;
  };
}
