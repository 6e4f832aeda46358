/** What the container that waits may use and do. Pure. */
import type { SecurityContext } from "@berth/kube";
import type { AgentWait } from "../footprint.ts";
import type { FootprintWait } from "./document.ts";

/**
 * The shell takes next to nothing. What a container needs to begin is more: runc copies itself into its memory
 * (opencontainers/runc#1980), and with a tenth of this CPU that takes seconds. Requests are as limits, for a pod that is
 * `Guaranteed` stays so. An init container costs a pod nothing that requests as much later.
 */
const AMOUNTS: Readonly<Record<string, string>> = { cpu: "50m", memory: "32Mi" };

/** What Pod Security `restricted` asks for, and a user that every image can run a shell as: `nobody`. */
const SECURITY_CONTEXT: SecurityContext = {
  allowPrivilegeEscalation: false,
  capabilities: { drop: ["ALL"] },
  runAsNonRoot: true,
  runAsUser: 65_534,
  seccompProfile: { type: "RuntimeDefault" },
};

/** An empty one is none: what a LimitRange or a policy gives counts then, and what the pod says for all its containers. */
export function waitSettings({
  resources,
  securityContext,
}: NonNullable<FootprintWait["container"]>): Pick<AgentWait, "resources" | "securityContext"> {
  return {
    ...(resources === undefined && { resources: { requests: AMOUNTS, limits: AMOUNTS } }),
    ...(securityContext === undefined && { securityContext: SECURITY_CONTEXT }),
  };
}
