/** The container that lets a pod wait until a process listens on a port of its node. */
import type { Container, ResourceRequirements, SecurityContext } from "@berth/kube";

export interface PortWait {
  readonly containerName: string;
  readonly image: string;
  /** Absent: the container sets none. */
  readonly resources?: ResourceRequirements;
  readonly securityContext?: SecurityContext;
  /** Seconds; absent: no timeout. */
  readonly timeoutSeconds?: number;
  readonly port: number;
}

/** `nc` gives up an unanswered TCP connection after this time. Otherwise the loop could miss its deadline. */
const CONNECT_SECONDS = 2;

/**
 * Without resources and security context it equals the container of agent-substrate's pull request 134. With a timeout
 * the loop also ends at that time, and the pod then starts as if the agent were there. The image needs a shell,
 * `nc -z`, and with a timeout `date`: busybox has them.
 */
export function waitContainer(wait: PortWait): Container {
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
