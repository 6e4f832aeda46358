/** The container by which a pod waits for the agent of its node. Pure and total: pods are whatever somebody sent. */
import type { Container, Deployment, JsonPatchOperation, ObjectMeta } from "@berth/kube";
import { baseName } from "../../../api/keys.ts";
import { itemKey, ownEntry, ownedAt } from "../../managed-fields.ts";
import { isRecord, listField, textField } from "../../untrusted-json.ts";
import type { AgentWait, Footprint } from "../footprint.ts";

/** A TCP connection that is not answered is given up after so many seconds: only then does a deadline hold. */
const CONNECT_SECONDS = 2;

/**
 * Without resources and security context as agent-substrate's pull request 134 has it, field by field. With a timeout the loop also ends at a
 * time of the clock, and then as if the agent were there. It takes a shell, `nc -z`, and with a timeout `date`: busybox
 * has them.
 */
export function waitContainer(wait: Omit<AgentWait, "inject">): Container {
  const { containerName, image, port, timeoutSeconds, resources, securityContext } = wait;
  return {
    name: containerName,
    image,
    command: ["sh", "-c", scriptOf(port, timeoutSeconds)],
    env: [{ name: "HOST_IP", valueFrom: { fieldRef: { fieldPath: "status.hostIP" } } }],
    ...(resources && { resources }),
    ...(securityContext && { securityContext }),
  };
}

function scriptOf(port: number, timeoutSeconds: number | undefined): string {
  if (timeoutSeconds === undefined) return `until nc -z "$HOST_IP" ${port}; do sleep 1; done`;
  const isListening = `nc -z -w ${CONNECT_SECONDS} "$HOST_IP" ${port}`;
  return (
    `end=$(($(date +%s) + ${timeoutSeconds})); ` +
    `until ${isListening} || [ "$(date +%s)" -ge "$end" ]; do sleep 1; done`
  );
}

/** The containers of footprints with this way of injection, the first by name where two are called alike. */
export function waitContainers(
  footprints: readonly Footprint[],
  inject: AgentWait["inject"],
): readonly Container[] {
  const containers = new Map<string, Container>();
  for (const { wait } of footprints)
    if (wait?.inject === inject && !containers.has(wait.containerName))
      containers.set(wait.containerName, waitContainer(wait));
  return [...containers.values()];
}

const INIT = "/spec/initContainers";

/**
 * Puts the containers before all other init containers of a pod, without those whose name is taken: by a container of any
 * sort, for names are unique in a pod.
 */
export function injectWait(spec: unknown, containers: readonly Container[]): readonly JsonPatchOperation[] {
  const taken = containerNames(spec);
  const missing = containers.filter(({ name }) => !taken.has(name));
  if (missing.length === 0) return [];
  if (listField(spec, "initContainers").length === 0) return [{ op: "add", path: INIT, value: missing }];
  return missing.map((value, at) => ({ op: "add", path: `${INIT}/${at}`, value }));
}

export function containerNames(spec: unknown): ReadonlySet<string> {
  const lists = ["initContainers", "containers", "ephemeralContainers"];
  return new Set(lists.flatMap((list) => listField(spec, list).map((it) => textField(it, "name"))));
}

/**
 * Field manager of what an installation applies to Deployments. Each has one of its own: what it has not applied it does not
 * take off.
 */
export function waitManager(installation: string): string {
  return baseName(installation);
}

const INIT_CONTAINERS = ["f:spec", "f:template", "f:spec", "f:initContainers"];

/**
 * The init containers that an installation has applied to a Deployment, each with the server's own record of its fields:
 * whole ones, and those of others that were named for the order.
 */
export function appliedContainers(
  { metadata }: Pick<Deployment, "metadata">,
  installation: string,
): ReadonlyMap<string, unknown> {
  const owned = ownedAt(ownEntry(metadata?.managedFields ?? [], waitManager(installation)), INIT_CONTAINERS);
  const items = isRecord(owned) ? Object.entries(owned) : [];
  return new Map(
    items.flatMap(([item, fields]) => {
      const name = itemKey(item, "name");
      return typeof name === "string" ? [[name, fields] as const] : [];
    }),
  );
}

/** What is applied to a Deployment: its identity, and all that we own of it. */
export interface WaitBody {
  readonly metadata: Required<Pick<ObjectMeta, "namespace" | "name" | "uid">>;
  readonly spec?: { readonly template: { readonly spec: { readonly initContainers: readonly Container[] } } };
}

/**
 * For server-side apply. Without containers: all that was ours is taken off. `before` are names of others' init containers:
 * apply puts new entries at the end of a list, except before those that it names after them. Naming them makes them ours as
 * well, so what was applied with `before` has to be applied without it at once.
 */
export function waitBody(
  { metadata }: Deployment,
  containers: readonly Container[],
  before: readonly string[] = [],
): WaitBody {
  const { namespace = "", name = "", uid = "" } = metadata ?? {};
  const initContainers = [...containers, ...before.map((it) => ({ name: it }))];
  return {
    metadata: { namespace, name, uid },
    ...(initContainers.length > 0 && { spec: { template: { spec: { initContainers } } } }),
  };
}
