/** What the container that waits may use and do. Pure. */
import type { ResourceRequirements, SecurityContext } from "@berth/kube";
import type { AgentWait } from "../footprint.ts";
import type { FootprintWait, WaitAmounts, WaitResources, WaitSecurityContext } from "./document.ts";

/**
 * The shell takes next to nothing. What a container needs to begin is more: runc copies itself into its memory
 * (opencontainers/runc#1980), and with a tenth of this CPU that takes seconds. Requests are as limits, for a pod that is
 * `Guaranteed` stays so. An init container costs a pod nothing that requests as much later.
 */
const AMOUNTS: Readonly<Record<string, string>> = { cpu: "50m", memory: "32Mi" };
const RESOURCES: ResourceRequirements = { requests: AMOUNTS, limits: AMOUNTS };

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
  resources,
  securityContext,
}: NonNullable<FootprintWait["container"]>): Pick<AgentWait, "resources" | "securityContext"> {
  return {
    ...unlessEmpty("resources", resources === undefined ? RESOURCES : resourcesOf(resources)),
    ...unlessEmpty(
      "securityContext",
      securityContext === undefined ? SECURITY_CONTEXT : securityOf(securityContext),
    ),
  };
}

function unlessEmpty<K extends string, V extends object>(key: K, value: V): { readonly [_ in K]?: V } {
  const found: { readonly [_ in K]?: V } = {};
  return Object.keys(value).length === 0 ? found : { ...found, [key]: value };
}

function resourcesOf({ requests, limits }: WaitResources): ResourceRequirements {
  return {
    ...(requests && unlessEmpty("requests", amountsOf(requests))),
    ...(limits && unlessEmpty("limits", amountsOf(limits))),
  };
}

function amountsOf(amounts: WaitAmounts): Readonly<Record<string, string>> {
  const given = Object.entries(amounts).flatMap(([name, amount]: [string, string | undefined]) =>
    amount === undefined ? [] : [[name, amount] as const],
  );
  return Object.fromEntries(given);
}

function securityOf({ capabilities, seccompProfile, ...others }: WaitSecurityContext): SecurityContext {
  return {
    ...defined(others),
    ...(capabilities?.drop && { capabilities: { drop: capabilities.drop } }),
    ...(seccompProfile && { seccompProfile: defined(seccompProfile) }),
  };
}

function defined<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  const entries = Object.entries(value).filter(([, it]) => it !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]: Exclude<T[K], undefined> };
}
