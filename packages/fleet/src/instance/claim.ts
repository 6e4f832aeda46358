/** The ResourceClaim of an Instance: what Berth asks the quota service for, and whose a claim is. */
import { fromTime, parseQuantity } from "@berth/runtime";
import { claimName, instanceOfClaim, labels } from "../api/keys.ts";
import { type ResourceClaim, requestTypes } from "../api/quota.ts";
import type { Instance, InstanceSpec, Quantity } from "../api/workload.ts";
import type { Catalog, InstanceType } from "../fleet/document.ts";
import type { InstanceView } from "./view.ts";

const PROJECT = { apiGroup: "resourcemanager.miloapis.com", kind: "Project" } as const;

/** The claim to create, without its namespace: the view names the project only. */
export function claimFor(
  { instance, source, rules }: Pick<InstanceView, "instance" | "source" | "rules">,
  projectName: string,
): ResourceClaim {
  const { name = "", namespace = "", uid = "" } = instance.metadata ?? {};
  const project = { ...PROJECT, name: projectName };
  const size = sizeOf(instance.spec, rules.catalog);
  return {
    metadata: {
      name: claimName(name),
      labels: {
        [labels.sourceCluster]: source,
        [labels.instanceNamespace]: namespace,
        [labels.instanceUid]: uid,
      },
    },
    spec: {
      consumerRef: project,
      resourceRef: project,
      requests: [
        { resourceType: requestTypes.instances, amount: 1 },
        ...(size === undefined
          ? []
          : [
              { resourceType: requestTypes.vcpus, amount: size.millicores },
              { resourceType: requestTypes.memory, amount: size.mebibytes },
            ]),
      ],
    },
  };
}

/** The Instance to look at after a change of a claim. `undefined`: it is not in this cluster, or is no Instance. */
export function instanceClaiming(
  { metadata }: ResourceClaim,
  source: string,
): { readonly namespace: string; readonly name: string } | undefined {
  const namespace = metadata?.labels?.[labels.instanceNamespace];
  const name = instanceOfClaim(metadata?.name ?? "");
  if (metadata?.labels?.[labels.sourceCluster] !== source || !namespace || !name) return undefined;
  return { namespace, name };
}

/**
 * True when the claim was made for this Instance. One of the same name may be in another cluster, or may have been
 * here before. The original writes no uid: such a claim counts when it is not older than the Instance.
 */
export function isClaimOf({ metadata }: ResourceClaim, instance: Instance, source: string): boolean {
  const { [labels.sourceCluster]: cluster, [labels.instanceNamespace]: namespace } = metadata?.labels ?? {};
  if (cluster !== source || namespace !== instance.metadata?.namespace) return false;
  const uid = metadata?.labels?.[labels.instanceUid];
  if (uid !== undefined) return uid === instance.metadata?.uid;
  const [claimed, created] = [metadata?.creationTimestamp, instance.metadata?.creationTimestamp].map(
    fromTime,
  );
  return claimed !== undefined && created !== undefined && claimed >= created;
}

/** Was the claim made in this cluster for an Instance that had this name, and is not this one? The original writes no uid. */
export function isClaimOfAnother(
  { metadata }: ResourceClaim,
  at: { readonly namespace: string; readonly source: string; readonly uid: string | undefined },
): boolean {
  const own = metadata?.labels;
  const uid = own?.[labels.instanceUid];
  const isOurs = own?.[labels.sourceCluster] === at.source && own[labels.instanceNamespace] === at.namespace;
  return isOurs && uid !== undefined && uid !== at.uid;
}

/** First of: the sum of the limits, if every container has both; the requests; the catalog. */
function sizeOf(spec: InstanceSpec | undefined, catalog: Catalog): InstanceType | undefined {
  const { sandbox, resources } = spec?.runtime ?? {};
  const limits = (sandbox?.containers ?? []).map((container) => sizeIn(container.resources?.limits));
  if (limits.length > 0 && limits.every((size) => size !== undefined))
    return {
      millicores: limits.reduce((sum, { millicores }) => sum + millicores, 0),
      mebibytes: limits.reduce((sum, { mebibytes }) => sum + mebibytes, 0),
    };
  const type = resources?.instanceType ?? "";
  return sizeIn(resources?.requests) ?? (Object.hasOwn(catalog, type) ? catalog[type] : undefined);
}

/** `undefined` unless both `cpu` and `memory` are quantities, and not below 0. */
function sizeIn(list: Readonly<Record<string, Quantity>> | undefined): InstanceType | undefined {
  const millicores = amountOf(list?.["cpu"], NANO / 1000n);
  const mebibytes = amountOf(list?.["memory"], NANO * 2n ** 20n);
  return millicores === undefined || mebibytes === undefined ? undefined : { millicores, mebibytes };
}

/** `parseQuantity` counts in these. */
const NANO = 1_000_000_000n;

/** Rounded up to whole units of `per`. */
function amountOf(quantity: Quantity | undefined, per: bigint): number | undefined {
  const nano = quantity === undefined ? undefined : parseQuantity(String(quantity));
  return nano === undefined || nano < 0n ? undefined : Number((nano + per - 1n) / per);
}
