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
}

export interface ClaimsOnce {
  readonly quotaOf: (instance: Instance) => QuotaSeen;
  /** Why the quota service, or the project that pays, could not be asked. */
  readonly unread?: string;
}

/** With one list. Without a Fleet the claims are not read, because only it says where they are. */
export async function readClaims(reading: ClaimReading): Promise<ClaimsOnce> {
  const { run, namespace, fleet } = reading;
  if (fleet === undefined)
    return { quotaOf: unknown("give --config with the document Fleet, which says where claims are") };
  const { spec, quota } = fleet;
  if (spec.quota === undefined) return { quotaOf: () => ({ is: "off" }) };
  const ownNamespace = await readNamespace(reading, spec.mode === "cell");
  const payer = payerOf(spec, namespace, ownNamespace);
  if ("is" in payer)
    return payer.is === "read" ? notRead(`namespace ${namespace} cannot be read`) : { quotaOf: () => payer };
  const client = quotaClients(spec.quota.from, quota ?? run.client).clientOf(payer.project);
  try {
    const found = await listObjects<ResourceClaim>(
      { resource: resourceClaims, namespace: payer.namespace },
      { ...run, client },
    );
    if (found === undefined) return notRead("the ResourceClaims cannot be read, or are not served");
    const byName = new Map(found.map((claim) => [claim.metadata?.name ?? "", claim]));
    const quotaOf = ({ metadata }: Instance): QuotaSeen => {
      const value = byName.get(claimName(metadata?.name ?? ""));
      const claim = value === undefined ? ({ is: "none" } as const) : ({ is: "there", value } as const);
      return { is: "read", project: payer.project, claim };
    };
    return { quotaOf };
  } catch (error) {
    // What this command meets says nothing about what a running Berth meets.
    if (!isApiError(error) || run.signal.aborted) throw error;
    return notRead(error.message);
  }
}

function notRead(unread: string): ClaimsOnce {
  return { quotaOf: unknown(unread), unread };
}

function unknown(because: string): () => QuotaSeen {
  return () => ({ is: "read", project: "", claim: { is: "unknown", because } });
}

async function readNamespace({ run, namespace }: ClaimReading, isNeeded: boolean) {
  if (!isNeeded) return undefined;
  const { client, signal } = run;
  return unlessForbidden("Namespaces", run, () => client.get(namespaces, { name: namespace }, { signal }));
}
