/** The container by which a pod waits for the agent of its node. Pure and total: pods are whatever somebody sent. */
import type { Container, JsonPatchOperation } from "@berth/kube";
import { listField, textField } from "../../node/untrusted-json.ts";
import type { AgentWait, Footprint } from "../footprint.ts";

/** A TCP connection that is not answered is given up after so many seconds: only then does a deadline hold. */
const CONNECT_SECONDS = 2;

/**
 * Without resources and security context as agent-substrate's pull request 134 has it, field by field. With a timeout the loop also ends at a
 * time of the clock, and then as if the agent were there. It takes a shell, `nc -z`, and with a timeout `date`: busybox
 * has them.
 */
export function waitContainer(wait: AgentWait): Container {
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

/** The containers of footprints, the first by name where two are called alike. */
export function waitContainers(footprints: readonly Footprint[]): readonly Container[] {
  const containers = new Map<string, Container>();
  for (const { wait } of footprints)
    if (wait && !containers.has(wait.containerName)) containers.set(wait.containerName, waitContainer(wait));
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

function containerNames(spec: unknown): ReadonlySet<string> {
  const lists = ["initContainers", "containers", "ephemeralContainers"];
  return new Set(lists.flatMap((list) => listField(spec, list).map((it) => textField(it, "name"))));
}
