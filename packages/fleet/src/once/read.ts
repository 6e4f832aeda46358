/** Reads the fleet of one namespace once, for a command. */
import { eachObject, keepFields, listObjects, type OneShotRun, unlessForbidden } from "@berth/host";
import { isApiError, type KubeObject, type Pod, pods, type Resource } from "@berth/kube";
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
import { type Instance, instances, workloadDeployments } from "../api/workload.ts";
import type { FleetFacts, NetworkLists } from "../explain/facts.ts";
import { type FleetSpec, fleetKind } from "../fleet/document.ts";
import type { FleetSettings } from "../fleet/settings.ts";
import { readClaims } from "./claims.ts";

export interface FleetReading {
  readonly run: OneShotRun;
  readonly namespace: string;
  /** Absent: no document Fleet was given. */
  readonly fleet?: FleetSettings | undefined;
}

/** Reads no pods and no claims where the command needs none. */
export async function readFleetFacts(
  { run, namespace, fleet }: FleetReading,
  { withPods }: { readonly withPods: boolean },
): Promise<FleetFacts> {
  const spec = fleet?.spec ?? DEFAULT_FLEET;
  const consequence = "the tree is not complete";
  const deployments = await listObjects({ resource: workloadDeployments, namespace, consequence }, run);
  const found = await listObjects<Instance>({ resource: instances, namespace, consequence }, run);
  return {
    spec,
    isGiven: fleet !== undefined,
    nowMs: run.clock.now(),
    deployments: deployments ?? [],
    instances: found ?? [],
    networks: spec.networking === "Off" ? "off" : await readNetworks(spec, namespace, run),
    podOf: withPods && spec.provider === "pods" ? await readPods(namespace, run) : () => UNREAD,
    quotaOf: await readClaims({ run, namespace, fleet, isNeeded: withPods }),
  };
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
): Promise<NetworkLists | "off" | "unknown"> {
  const bindings = await served(networkBindings, run, namespace);
  if (bindings === "absent") return networking === "Auto" ? "off" : "unknown";
  const [ofLocations, ofNetworks, contexts, claims, ofSubnets] = [
    await served(locations, run),
    await served(networks, run),
    await served(networkContexts, run),
    await served(subnetClaims, run),
    await served(subnets, run),
  ];
  const lists = {
    bindings,
    locations: ofLocations,
    networks: ofNetworks,
    contexts,
    subnetClaims: claims,
    subnets: ofSubnets,
  };
  return isWhole(lists) ? lists : "unknown";
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
  const read = async (): Promise<readonly T[] | "absent"> => {
    const found: T[] = [];
    try {
      const options = { signal: run.signal, ...(namespace !== undefined && { namespace }) };
      for await (const { items } of run.client.pages(resource, options)) found.push(...items);
      return found;
    } catch (error) {
      if (isApiError(error, "notFound")) return "absent";
      throw error;
    }
  };
  return unlessForbidden(`${resource.kind}s`, run, read, "what waits for networks is not known");
}
