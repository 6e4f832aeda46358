/** Reads the fleet of one namespace once, for a command. */
import { eachObject, keepFields, LeftOut, listObjects, type OneShotRun, unlessForbidden } from "@berth/host";
import {
  type ConnectOptions,
  connect,
  isApiError,
  type KubeObject,
  type Pod,
  pods,
  type Resource,
} from "@berth/kube";
import { type Cell, cells, type Withdrawal, withdrawals } from "../api/cell.ts";
import { NETWORKING_GROUP, NETWORKING_VERSION } from "../api/group.ts";
import { labels } from "../api/keys.ts";
import {
  locations,
  networkBindings,
  networkContexts,
  networks,
  subnetClaims,
  subnets,
} from "../api/networking.ts";
import type { Seen } from "../api/seen.ts";
import { type Instance, instances, type WorkloadDeployment, workloadDeployments } from "../api/workload.ts";
import type { FleetFacts, NetworkLists, Unread } from "../explain/facts.ts";
import { isCarried, type PlaneFacts } from "../explain/planes.ts";
import { type FleetSpec, fleetKind } from "../fleet/document.ts";
import type { FleetSettings } from "../fleet/settings.ts";
import { readClaims } from "./claims.ts";

export interface FleetReading {
  readonly run: OneShotRun;
  readonly namespace: string;
  /** Absent: no document Fleet was given. */
  readonly fleet?: FleetSettings | undefined;
}

/**
 * Reads no pods where the command needs none. What other lists lack is `unread`; without deployments and Instances every
 * conclusion would be wrong.
 * @throws ApiError when the user may not list deployments or Instances.
 */
export async function readFleetFacts(
  { run, namespace, fleet }: FleetReading,
  { withPods }: { readonly withPods: boolean },
): Promise<FleetFacts> {
  const spec = fleet?.spec ?? DEFAULT_FLEET;
  const deployments = await read(workloadDeployments, run, namespace);
  const found = await read(instances, run, namespace);
  const networks = spec.networking === "Off" ? "off" : await readNetworks(spec, namespace, run);
  const podOf = withPods && spec.provider === "pods" ? await readPods(namespace, run) : () => UNREAD;
  const claims = await readClaims({ run, namespace, fleet });
  const ofProject = deployments !== "absent" && deployments.some(isCarried);
  const planes = await readPlanes(run, ofProject, fleet?.hub?.hub);
  const isKnown = typeof networks === "string" || !("unread" in networks);
  return {
    spec,
    isGiven: fleet !== undefined,
    nowMs: run.clock.now(),
    deployments: deployments === "absent" ? [] : deployments,
    instances: found === "absent" ? [] : found,
    networks: isKnown ? networks : "unknown",
    podOf,
    quotaOf: claims.quotaOf,
    ...(planes && { planes }),
    unread: [
      ...(isKnown ? [] : [notRead("networks", networks.unread)]),
      ...(claims.unread === undefined ? [] : [notRead("quota", claims.unread)]),
    ],
  };
}

/**
 * The Cells of this cluster, and the hub.
 * @param isCarried cells have the deployments of the namespace. Otherwise a user without Cells has no need to know of them.
 * @param toHub its connection. Absent: it is this cluster.
 */
export async function readPlanes(
  run: OneShotRun,
  isCarried: boolean,
  toHub: ConnectOptions | undefined,
): Promise<PlaneFacts | undefined> {
  const consequence = "the cells of deployments are not known";
  const leftOut = isCarried ? run.leftOut : new LeftOut();
  const found = await listObjects<Cell>({ resource: cells, consequence }, { ...run, leftOut });
  if (found === undefined || (found.length === 0 && !isCarried)) return undefined;
  await using hub = toHub && connect({ ...toHub, cluster: "hub" });
  const ofHub = {
    resource: workloadDeployments,
    labelSelector: labels.cell,
    project: placedFields,
    consequence,
  };
  return {
    cells: found,
    deployments: (await listObjects<WorkloadDeployment>(ofHub, hub ? { ...run, client: hub } : run)) ?? [],
    withdrawals: (await listObjects<Withdrawal>({ resource: withdrawals, consequence }, run)) ?? [],
  };
}

const placedFields = keepFields<WorkloadDeployment>([
  "metadata",
  "spec.cityCode",
  "spec.scaleSettings",
  "status",
]);

function notRead(what: Unread["what"], message: string): Unread {
  return { reason: "SourceNotRead", what, message };
}

/** As `berth run --mode single` runs it. */
const DEFAULT_FLEET: FleetSpec = fleetKind.spec.parse({ mode: "single" });

const UNREAD = { is: "unknown", because: "the pods were not read" } as const;

async function readPods(namespace: string, run: OneShotRun): Promise<(instance: Instance) => Seen<Pod>> {
  const found = new Map<string, Pod>();
  const project = keepFields<Pod>(["metadata", "spec.nodeName", "status"]);
  const isRead = await eachObject<Pod>(
    { resource: pods, namespace, labelSelector: labels.deploymentUid, project },
    run,
    (pod) => void found.set(pod.metadata?.name ?? "", pod),
  );
  return ({ metadata }) => {
    if (!isRead) return { is: "unknown", because: "the pods cannot be read" };
    const value = found.get(metadata?.name ?? "");
    return value === undefined ? { is: "none" } : { is: "there", value };
  };
}

/** `off`: the API server does not serve NetworkBindings, and the Fleet does not insist on them. */
async function readNetworks(
  { networking }: FleetSpec,
  namespace: string,
  run: OneShotRun,
): Promise<NetworkLists | "off" | { readonly unread: string }> {
  if (networking === "Auto" && !(await isGroupServed(run))) return "off";
  const bindings = await served(networkBindings, run, namespace);
  if (bindings === "absent" && networking === "Auto") return "off";
  const lists = {
    bindings,
    locations: await served(locations, run),
    networks: await served(networks, run),
    contexts: await served(networkContexts, run),
    subnetClaims: await served(subnetClaims, run),
    subnets: await served(subnets, run),
  };
  if (isWhole(lists)) return lists;
  const missing = Object.entries(lists).flatMap(([what, list]) =>
    typeof list === "object" ? [] : `${what} ${list === "absent" ? "are not served" : "may not be listed"}`,
  );
  return { unread: missing.join(", ") };
}

/** Who may not list its kinds is refused also where there are none: everybody may ask for the group. */
async function isGroupServed({ client, signal }: OneShotRun): Promise<boolean> {
  try {
    await client.read(`/apis/${NETWORKING_GROUP}/${NETWORKING_VERSION}`, { signal });
  } catch (error) {
    if (isApiError(error, "notFound")) return false;
    if (!isApiError(error, "forbidden")) throw error;
  }
  return true;
}

type Lists = { readonly [K in keyof NetworkLists]: NetworkLists[K] | "absent" | undefined };

function isWhole(lists: Lists): lists is NetworkLists {
  return Object.values(lists).every((list) => typeof list === "object");
}

/** `undefined`: forbidden, which `leftOut` records. */
function served<T extends KubeObject>(
  resource: Resource<T>,
  run: OneShotRun,
  namespace?: string,
): Promise<readonly T[] | "absent" | undefined> {
  const consequence = "what waits for networks is not known";
  return unlessForbidden(`${resource.kind}s`, run, () => read(resource, run, namespace), consequence);
}

/** `absent`: the API server does not serve the kind. */
async function read<T extends KubeObject>(
  resource: Resource<T>,
  { client, signal }: OneShotRun,
  namespace?: string,
): Promise<readonly T[] | "absent"> {
  const found: T[] = [];
  try {
    const options = { signal, ...(namespace !== undefined && { namespace }) };
    for await (const { items } of client.pages(resource, options)) found.push(...items);
    return found;
  } catch (error) {
    if (isApiError(error, "notFound")) return "absent";
    throw error;
  }
}
