/** Rules about `spec.template.spec.networkInterfaces`, and the question whether the user may use these networks. */
import type { Access } from "@berth/host";
import type { SubjectAccessReviewSpec } from "@berth/kube";
import type { AdmissionUser } from "@berth/runtime";
import { NETWORKING_GROUP, NETWORKING_VERSION } from "../api/group.ts";
import { type Fault, type Faults, quoted } from "./fault.ts";
import { Field } from "./field.ts";
import { dnsLabel } from "./names.ts";

/** The network of one interface. */
export interface UsedNetwork {
  /** Of the interface. */
  readonly index: number;
  readonly name: string;
}

/** Each new network is a request to the API server. The CRD has the same bound. */
const MAX_INTERFACES = 16;

const INTERFACES = "spec.template.spec.networkInterfaces";

export function* interfaceFaults(interfaces: Field, namespace: string): Faults {
  const { size } = interfaces;
  if (size === 0) yield interfaces.required();
  if (size > MAX_INTERFACES) yield interfaces.invalid(`must have at most ${MAX_INTERFACES} items`, size);
  for (const { name, namespace: of } of interfaces.items().map(networkOf)) {
    const problem = dnsLabel(name.text);
    if (problem !== undefined) yield name.invalid(problem);
    if (of.isSet && of.value !== "" && of.value !== namespace)
      yield of.invalid(`must be empty or the namespace of the Workload, ${namespace}`);
  }
}

/**
 * Only interfaces at the end may be new. The name of a NetworkBinding has the index of its interface, and the binding
 * of a live deployment keeps its network. A Workload without deployments has no bindings, and can be corrected.
 */
export function* boundNetworkFaults(workload: Field, old: Field, namespace: string): Faults {
  if (old.get("status").get("deployments").integer === 0) return;
  const interfaces = interfacesOf(workload);
  const now = interfaces.items().map(networkOf).toArray();
  for (const [at, before] of interfacesOf(old).items().map(networkOf).toArray().entries()) {
    const { name, namespace: of } = now[at] ?? {};
    if (name === undefined || of === undefined) {
      yield interfaces.invalid(`interface ${at} may not be removed: its NetworkBinding exists`, now.length);
      return;
    }
    const isSame =
      name.text === before.name.text && (of.text || namespace) === (before.namespace.text || namespace);
    if (!isSame)
      yield name.invalid(
        `the network of an interface may not change, it is ${quoted(before.name.text)}: create another Workload`,
      );
  }
}

/** Networks that the stored object does not use. Names that are invalid are left out. */
export function newNetworks(workload: Field, old: Field): readonly UsedNetwork[] {
  const stored = new Set(networkNames(old));
  return networkNames(workload)
    .slice(0, MAX_INTERFACES)
    .map((name, index) => ({ index, name }))
    .filter(({ name }) => dnsLabel(name) === undefined && !stored.has(name));
}

function networkNames(workload: Field): readonly string[] {
  return interfacesOf(workload)
    .items()
    .map((it) => networkOf(it).name.text)
    .toArray();
}

function interfacesOf(workload: Field): Field {
  return workload.get("spec").get("template").get("spec").get("networkInterfaces");
}

function networkOf(item: Field): { readonly name: Field; readonly namespace: Field } {
  const network = item.get("network");
  return { name: network.get("name"), namespace: network.get("namespace") };
}

/** The question whether `user` may use a Network in the namespace of the Workload. */
export function accessQuestion(
  user: AdmissionUser | undefined,
  { namespace, name }: { readonly namespace: string; readonly name: string },
): SubjectAccessReviewSpec {
  const { username, groups, uid, extra } = user ?? {};
  return {
    ...(username !== undefined && { user: username }),
    ...(groups && { groups }),
    ...(uid !== undefined && { uid }),
    ...(extra && { extra }),
    resourceAttributes: {
      verb: "use",
      group: NETWORKING_GROUP,
      version: NETWORKING_VERSION,
      resource: "networks",
      namespace,
      name,
    },
  };
}

/** @param access the answer about this network. The words of the authorizer are not for the user. */
export function accessFaults({ index, name }: UsedNetwork, access: Access | undefined): readonly Fault[] {
  if (access === undefined || access.kind === "allowed") return [];
  const network = new Field(`${INTERFACES}[${index}].network`, name);
  return access.kind === "denied"
    ? [network.forbidden(`you may not use network ${name}`)]
    : [network.internal(`it is not known whether you may use network ${name}; try again`)];
}
