/** What the container that waits may use and do. Pure. */
import type { ResourceRequirements, SecurityContext } from "@berth/kube";
import type { AgentWait } from "../footprint.ts";
import type { FootprintWait, WaitAmounts } from "./document.ts";

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

/**
 * What is given goes before the default, as a whole: half of two settings could be refused where either is not. An empty
 * one is none. It goes before what a pod says for all its containers, as the API server has it.
 */
export function waitSettings({
  resources = { requests: AMOUNTS, limits: AMOUNTS },
  securityContext,
}: NonNullable<FootprintWait["container"]>): Pick<AgentWait, "resources" | "securityContext"> {
  const { requests, limits } = resources;
  const given: ResourceRequirements = { ...amountsOf("requests", requests), ...amountsOf("limits", limits) };
  return {
    ...(Object.keys(given).length > 0 && { resources: given }),
    ...(securityContext === undefined && { securityContext: SECURITY_CONTEXT }),
  };
}

function amountsOf(name: "requests" | "limits", amounts: WaitAmounts = {}): ResourceRequirements {
  const given = Object.entries(amounts).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return given.length > 0 ? { [name]: Object.fromEntries(given) } : {};
}
