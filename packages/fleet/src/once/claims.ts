/** Reads the ResourceClaims of one namespace once, for a command. */
import { listObjects, type OneShotRun, unlessForbidden } from "@berth/host";
import { isApiError, namespaces } from "@berth/kube";
import { claimName } from "../api/keys.ts";
import { type ResourceClaim, resourceClaims } from "../api/quota.ts";
import type { Instance } from "../api/workload.ts";
import { payerOf, quotaClients } from "../claims/payer.ts";
import type { FleetSettings } from "../fleet/settings.ts";
import type { QuotaSeen } from "../instance/view.ts";

export interface ClaimReading {
  readonly run: OneShotRun;
  readonly namespace: string;
  readonly fleet?: FleetSettings | undefined;
  readonly isNeeded: boolean;
}

/** With one list. Without a Fleet the claims are not read, because only it says where they are. */
export async function readClaims(reading: ClaimReading): Promise<(instance: Instance) => QuotaSeen> {
  const { run, namespace, fleet, isNeeded } = reading;
  const unread = (because: string): (() => QuotaSeen) => {
    const seen = { is: "read", project: "", claim: { is: "unknown", because } } as const;
    return () => seen;
  };
  if (fleet === undefined)
    return unread("give --config with the document Fleet, which says where claims are");
  const { spec, quota } = fleet;
  if (spec.quota === undefined) return () => ({ is: "off" });
  if (!isNeeded) return unread("this command does not read claims");
  const ownNamespace = await readNamespace(reading, spec.mode === "cell");
  const payer = payerOf(spec, namespace, ownNamespace);
  if ("is" in payer) return () => payer;
  const client = quotaClients(spec.quota.from, quota ?? run.client)(payer.project);
  try {
    const found = await listObjects<ResourceClaim>(
      { resource: resourceClaims, namespace: payer.namespace },
      { ...run, client },
    );
    if (found === undefined) return unread("the claims cannot be read");
    const byName = new Map(found.map((claim) => [claim.metadata?.name ?? "", claim]));
    return ({ metadata }) => {
      const value = byName.get(claimName(metadata?.name ?? ""));
      const claim = value === undefined ? ({ is: "none" } as const) : ({ is: "there", value } as const);
      return { is: "read", project: payer.project, claim };
    };
  } catch (error) {
    if (!isApiError(error) || run.signal.aborted) throw error;
    const { message } = error;
    return () => ({ is: "failed", reason: "QuotaBackendUnavailable", message });
  }
}

async function readNamespace({ run, namespace }: ClaimReading, isNeeded: boolean) {
  if (!isNeeded) return undefined;
  const { client, signal } = run;
  return unlessForbidden("Namespaces", run, () => client.get(namespaces, { name: namespace }, { signal }));
}
