/** Decides which networking objects a deployment needs, and whether its Instances have their networks. Pure. */
import { apiVersionOf, type Condition, pathOf } from "@berth/kube";
import { controllerReferenceTo, findCondition } from "@berth/runtime";
import { bindingName } from "../api/keys.ts";
import {
  type Location,
  type NetworkBinding,
  type NetworkContext,
  networkBindings,
} from "../api/networking.ts";
import { isOwnedBy } from "../api/owner.ts";
import {
  type LocationReference,
  type NetworkInterface,
  type WorkloadDeployment,
  workloadDeployments,
} from "../api/workload.ts";
import {
  type AddressObjects,
  addressesBySubnetClaim,
  type Creation,
  find,
  isReady,
  notReady,
} from "./addresses.ts";
import { type Blocked, type LocationNamespaces, locationOfCity } from "./location.ts";

/** All lists are complete: an object that is not in them does not exist. */
export interface NetworkView extends AddressObjects {
  /** Not being deleted. */
  readonly deployment: WorkloadDeployment;
  readonly locations: readonly Location[];
  /** At least those in the namespace of the deployment. */
  readonly bindings: readonly NetworkBinding[];
  readonly contexts: readonly NetworkContext[];
  /** Default: all. */
  readonly locationNamespaces?: LocationNamespaces;
  /** In a cell: the namespace in the project that the deployment's namespace stands for. */
  readonly projectNamespace?: string | undefined;
}

export interface NetworkDecision {
  /** Every interface has its network: gate `Network` goes from the Instances. */
  readonly ready: boolean;
  /** For `status.location` of the deployment. Absent: leave it. */
  readonly location?: LocationReference;
  /** For the condition `Available` of the deployment, when no Instance is ready. Present unless `ready`. */
  readonly blocked?: Blocked;
  readonly create: readonly Creation[];
}

/** @param view `undefined`: the cluster has no networks, so no Instance waits for one. */
export function decideNetwork(view: NetworkView | undefined): NetworkDecision {
  if (view === undefined) return { ready: true, create: [] };
  const refused = refusalOf(view);
  const found = locationOfCity(view.deployment, view.locations, view.locationNamespaces);
  if (refused !== undefined || "blocked" in found) {
    const at = "location" in found ? found : {};
    const blocked = refused ?? ("blocked" in found ? found.blocked : undefined);
    return { ready: false, ...at, ...(blocked && { blocked }), create: [] };
  }
  const { location } = found;
  const steps = interfacesOf(view.deployment).map((one, at) => stepOf(one, at, location, view));
  const blocked = steps.find((step) => step?.blocked.reason === FAILED) ?? steps.find(Boolean);
  // Two interfaces of one network share a NetworkContext, and so its SubnetClaim.
  const create = new Map(steps.flatMap((step) => (step?.create ? [[keyOf(step.create), step.create]] : [])));
  return {
    ready: blocked === undefined,
    location,
    ...(blocked && { blocked: blocked.blocked }),
    create: [...create.values()],
  };
}

/** Why nothing is bound: the template asks for what the deployment may not have, or cannot have any more. */
function refusalOf(view: NetworkView): Blocked | undefined {
  const { namespace = "", name = "" } = view.deployment.metadata ?? {};
  for (const [at, { network }] of interfacesOf(view.deployment).entries()) {
    const asked = `interface ${at} of the template asks for network ${network.name}`;
    if (!isOwn(network.namespace, view)) {
      const message = `${asked} in namespace ${network.namespace}, and networks are in the own namespace. Leave network.namespace out.`;
      return { reason: "ForeignNetwork", message };
    }
    const binding = find(view.bindings, { namespace, name: bindingName(name, at) });
    if (binding?.spec?.network === undefined || !isOwnedBy(binding, view.deployment)) continue;
    const bound = binding.spec.network;
    if (bound.name === network.name && isOwn(bound.namespace, view)) continue;
    const held = `NetworkBinding ${pathOf(binding.metadata)} is for ${pathOf({ namespace, ...bound })}`;
    const message = `${asked}, and ${held}. Change the template back, or delete the binding, so that Berth can create it anew.`;
    return { reason: "NetworkChanged", message };
  }
  return undefined;
}

function isOwn(namespace: string | undefined, { deployment, projectNamespace }: NetworkView): boolean {
  return !namespace || namespace === deployment.metadata?.namespace || namespace === projectNamespace;
}

function keyOf({ resource, body }: Creation): string {
  return `${resource.plural} ${pathOf(body.metadata)}`;
}

/** The condition to show on the Instances of a deployment: that of the first of its NetworkBindings that failed. */
export function failedBinding(bindings: readonly NetworkBinding[]): Condition | undefined {
  return bindings
    .map(({ status }) => findCondition(status?.conditions, "Ready"))
    .find((it) => it?.status === "False" && it.reason === FAILED);
}

const FAILED = "NetworkFailedToCreate";

interface Step {
  readonly blocked: Blocked;
  readonly create?: Creation;
}

const interfacesOf = ({ spec }: WorkloadDeployment): readonly NetworkInterface[] =>
  spec?.template.spec.networkInterfaces ?? [];

/** What one interface waits for, and what Berth creates for it. `undefined`: it is ready. */
function stepOf(
  { network }: NetworkInterface,
  at: number,
  location: LocationReference,
  view: NetworkView,
): Step | undefined {
  const { deployment, bindings, contexts } = view;
  const own = {
    name: network.name,
    ...(network.namespace && { namespace: deployment.metadata?.namespace ?? "" }),
  };
  const wanted = bindingOf(deployment, at, { network: own, location });
  const { namespace = "", name = "" } = wanted.metadata ?? {};
  const called = `NetworkBinding ${namespace}/${name}`;
  const binding = find(bindings, { namespace, name });
  if (binding === undefined)
    return { ...waits(`${called} is being created`), create: { resource: networkBindings, body: wanted } };
  if (!isOwnedBy(binding, deployment))
    return waits(`${called} belongs to another object. Berth waits until it is gone.`);
  const failed = failedBinding([binding]);
  if (failed !== undefined) return { blocked: { reason: FAILED, message: failed.message } };
  if (pathOf(binding.spec?.location ?? {}) !== pathOf(location))
    return waits(`${called} is for another Location. Delete it, so that Berth can create it anew.`);
  if (!isReady(binding)) return waits(notReady("NetworkBinding", binding));
  const ref = binding.status?.networkContextRef;
  if (ref === undefined) return waits(`${called} has no NetworkContext yet`);
  const context = find(contexts, ref);
  if (context === undefined) return waits(`NetworkContext ${pathOf(ref)} does not exist yet`);
  if (!isReady(context)) return waits(notReady("NetworkContext", context));
  const waiting = addressesBySubnetClaim(context, location, view);
  return waiting && { ...waits(waiting.waitsFor), ...(waiting.create && { create: waiting.create }) };
}

function waits(message: string): Step {
  return { blocked: { reason: "NetworkProvisioning", message } };
}

function bindingOf(
  { metadata = {} }: WorkloadDeployment,
  at: number,
  spec: NonNullable<NetworkBinding["spec"]>,
): NetworkBinding {
  const { name = "", namespace = "" } = metadata;
  return {
    apiVersion: apiVersionOf(networkBindings),
    kind: networkBindings.kind,
    metadata: {
      namespace,
      name: bindingName(name, at),
      ownerReferences: [controllerReferenceTo(workloadDeployments, { metadata })],
    },
    spec,
  };
}
