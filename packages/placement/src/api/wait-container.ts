/** The container by which a pod waits until something listens on a port of its node. */
import type { Container, ResourceRequirements, SecurityContext } from "@berth/kube";

export interface PortWait {
  readonly containerName: string;
  readonly image: string;
  /** Absent: it says nothing of them. */
  readonly resources?: ResourceRequirements;
  readonly securityContext?: SecurityContext;
  /** Seconds; absent: never. */
  readonly timeoutSeconds?: number;
  readonly port: number;
}

/** A TCP connection that is not answered is given up after so many seconds: only then does a deadline hold. */
const CONNECT_SECONDS = 2;

/**
 * Without resources and security context as agent-substrate's pull request 134 has it, field by field. With a timeout the loop also ends at a
 * time of the clock, and then as if the agent were there. It takes a shell, `nc -z`, and with a timeout `date`: busybox
 * has them.
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
