/** What `berth clean` finds on objects other than nodes and pods, and how it takes that back. */

import { eachObject, type Listing, type OneShotRun } from "@berth/host";
import {
  configMaps,
  type DaemonSet,
  type Deployment,
  daemonSets,
  deployments,
  isApiError,
  type JsonPatchOperation,
  type KubeObject,
  leases,
  nameOfResource,
  type Resource,
  secrets,
} from "@berth/kube";
import {
  admissionLabels,
  formerWaitManager,
  formerWaits,
  IMAGE_FACTS_LABEL,
  WORKER_POOL_FIELD_MANAGER,
  WORKER_POOL_GROUP,
  workerPools,
} from "@berth/placement";
import { sleep } from "@berth/runtime";
import { describeApiError } from "./failure-text.ts";
import { baseName } from "./installation-name.ts";
import { placeConfigMapName } from "./place-config-map.ts";

/** One object that has something of Berth on it. */
export interface Leftover {
  /** `workerpools.ate.dev default/pool`. */
  readonly object: string;
  readonly what: string;
  /** Berth has made the whole object. Default false. */
  readonly isWhole?: boolean;
  readonly undo: (signal: AbortSignal) => Promise<unknown>;
}

/** A part of a DaemonSet that Berth records beside the pod template. */
export interface TemplatePart {
  readonly what: string;
  /** `undefined`: nothing is recorded. */
  readonly remove: (daemonSet: DaemonSet) => readonly JsonPatchOperation[] | undefined;
}

/** A DaemonSet that keeps changing under us, as its status does in a roll-out: read again this often. */
const MAX_TRIES = 10;

/** The API server compiles its policies anew once a second. Milliseconds. */
const POLICY_MS = 1000;

/** DaemonSets to which Berth, or `berth gate tolerate`, has added one of these parts. */
export async function findTemplateWork(
  parts: readonly TemplatePart[],
  at: OneShotRun,
): Promise<readonly Leftover[]> {
  const found: Leftover[] = [];
  if (parts.length === 0) return found;
  const consequence = "what Berth has added to them stays";
  await eachObject({ resource: daemonSets, consequence }, at, (daemonSet) => {
    for (const part of parts) {
      if (part.remove(daemonSet) === undefined) continue;
      const undo = (): Promise<void> => withoutPart(daemonSet, part, at);
      found.push({ object: nameOf(daemonSets, daemonSet), what: part.what, undo });
    }
  });
  return found;
}

async function withoutPart(
  { metadata }: DaemonSet,
  { remove }: TemplatePart,
  { client, clock, signal }: OneShotRun,
): Promise<void> {
  const { namespace = "", name = "", uid } = metadata ?? {};
  for (let tries = 1; ; tries++) {
    const daemonSet = await client.get(daemonSets, { namespace, name }, { signal });
    const changes = remove(daemonSet);
    if (changes === undefined || daemonSet.metadata?.uid !== uid) return;
    const value = daemonSet.metadata?.resourceVersion;
    const body = [{ op: "test", path: "/metadata/resourceVersion", value } as const, ...changes];
    try {
      const patched = await client.patch(daemonSets, { namespace, name }, { type: "json", body }, { signal });
      if (remove(patched) === undefined) return;
      // The API server goes by a deleted policy for a second more, and has put it back in the same request.
      if (tries === MAX_TRIES) throw new Error(`${namespace}/${name}: admission puts back what was removed`);
      await sleep(clock, POLICY_MS, signal);
    } catch (error) {
      // A `test` that does not hold is answered as invalid.
      if (!isApiError(error, "invalid", "conflict") || tries === MAX_TRIES) throw error;
    }
  }
}

export interface DeploymentWork {
  readonly installation: string;
  /** Look for waits that an earlier release has applied; only this release does. */
  readonly waits: boolean;
  /** The Deployments of WorkerPools: `delete` them, `tell` that they stay, or do not look. */
  readonly pools: "delete" | "tell" | undefined;
}

/** Deployments that Berth has made for WorkerPools, and those with a wait that an earlier release has applied. */
export async function findDeploymentWork(
  { installation, waits, pools }: DeploymentWork,
  at: OneShotRun,
): Promise<readonly Leftover[]> {
  const found: Leftover[] = [];
  if (!waits && pools === undefined) return found;
  let staying = 0;
  await eachObject({ resource: deployments, metadataOnly: true }, at, (deployment) => {
    if (pools === "tell" && isOfPool(deployment)) staying += 1;
    if (pools === "delete" && isOfPool(deployment)) {
      const what = "made for a WorkerPool, with its workers";
      found.push(deletion(deployments, deployment, { what, at }));
    } else if (waits && formerWaits(deployment, installation).length > 0) {
      const { namespace = "", name = "", uid = "" } = deployment.metadata ?? {};
      // An apply of nothing removes what was applied. The type promises a whole Deployment.
      const nothing = { metadata: { namespace, name, uid } } as Deployment;
      const fieldManager = formerWaitManager(installation);
      found.push({
        object: nameOf(deployments, deployment),
        what: "its pods wait for an agent, and are rolled out anew without",
        undo: (signal) => at.client.apply(deployments, nothing, { fieldManager, signal }),
      });
    }
  });
  if (staying > 0)
    at.stderr.write(
      `${staying} ${staying === 1 ? "Deployment" : "Deployments"} of WorkerPools stay: give the document WorkerPools by --config FILE to delete them.\n`,
    );
  return found;
}

/** The original's controller applies as the same field manager: only the configuration tells that it was Berth. */
function isOfPool({ metadata }: KubeObject): boolean {
  const controller = metadata?.ownerReferences?.find((it) => it.controller === true);
  return (
    controller?.kind === workerPools.kind &&
    controller.apiVersion.startsWith(`${WORKER_POOL_GROUP}/`) &&
    (metadata?.managedFields?.some(({ manager }) => manager === WORKER_POOL_FIELD_MANAGER) ?? false)
  );
}

/** The state that Berth keeps for itself in its namespace, and that `berth manifests` does not print. */
export async function findState(
  { namespace, installation }: { readonly namespace: string; readonly installation: string },
  at: OneShotRun,
): Promise<readonly Leftover[]> {
  const base = baseName(installation);
  const labels = { ...admissionLabels({ installation }), "app.kubernetes.io/managed-by": "berth" };
  const labelSelector = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  const kinds: readonly Listing<KubeObject>[] = [
    { resource: leases, fieldSelector: `metadata.name=${base}` },
    { resource: secrets, labelSelector: labelSelector.join(",") },
    { resource: configMaps, fieldSelector: `metadata.name=${placeConfigMapName(installation)}` },
    { resource: configMaps, labelSelector: `${IMAGE_FACTS_LABEL}=${installation}` },
  ];
  const found: Leftover[] = [];
  for (const kind of kinds)
    await eachObject({ ...kind, namespace, metadataOnly: true }, at, (object) => {
      found.push(deletion(kind.resource, object, { what: "state of Berth", at }));
    });
  return found;
}

function deletion(
  resource: Resource,
  object: KubeObject,
  { what, at: { client } }: { readonly what: string; readonly at: OneShotRun },
): Leftover {
  const { namespace = "", name = "", uid } = object.metadata ?? {};
  const preconditions = uid === undefined ? {} : { preconditions: { uid } };
  const undo = (signal: AbortSignal): Promise<unknown> =>
    client.delete(resource, { namespace, name }, { ...preconditions, signal });
  return { object: nameOf(resource, object), what, isWhole: true, undo };
}

function nameOf(resource: Resource, { metadata }: KubeObject): string {
  return `${nameOfResource(resource)} ${metadata?.namespace ?? ""}/${metadata?.name ?? ""}`;
}

/**
 * One that is gone is as good.
 * @returns one line for each that was left as it is: it changed since it was read, or may not be written.
 */
export async function undoLeftovers(
  work: readonly Leftover[],
  { signal }: Pick<OneShotRun, "signal">,
): Promise<readonly string[]> {
  const failures: string[] = [];
  for (const { object, undo } of work) {
    try {
      await undo(signal);
    } catch (error) {
      if (isApiError(error, "notFound", "uidMismatch")) continue;
      if (!isApiError(error)) throw error;
      failures.push(`${object} was left as it is: ${describeApiError(error)}`);
    }
  }
  return failures;
}

/** For `-o json`; nothing when there is nothing. */
export function describeLeftovers(work: readonly Leftover[]): object {
  return work.length === 0 ? {} : { objects: work.map(({ object, what }) => ({ object, what })) };
}

export function formatLeftovers(work: readonly Leftover[], verb: "will" | "would"): string {
  return work
    .map(
      ({ object, what, isWhole }) =>
        `${object}: ${what}: ${verb} be ${isWhole === true ? "deleted" : "taken off"}\n`,
    )
    .join("");
}
