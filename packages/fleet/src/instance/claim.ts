/** The ResourceClaim of an Instance: what Berth asks the quota service for, and whose a claim is. */
import { annotations, claimName, DEFAULT_CELL, instanceOfClaim, labels } from "../api/keys.ts";
import { type ResourceClaim, requestTypes } from "../api/quota.ts";
import { isOwnHash } from "../deployment/template-hash.ts";
import { sizeOf } from "./size.ts";
import type { InstanceView } from "./view.ts";

const PROJECT = { apiGroup: "resourcemanager.miloapis.com", kind: "Project" } as const;

/** The claim to create, without its namespace: the view names the project only. */
export function claimFor(
  { instance, source, rules }: Pick<InstanceView, "instance" | "source" | "rules">,
  projectName: string,
): ResourceClaim {
  const { name = "", namespace = "", uid = "" } = instance.metadata ?? {};
  const project = { ...PROJECT, name: projectName };
  const { total } = sizeOf(instance.spec, rules.catalog);
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
        ...(total === undefined
          ? []
          : [
              { resourceType: requestTypes.vcpus, amount: total.millicores },
              { resourceType: requestTypes.memory, amount: total.mebibytes },
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
  const { [labels.sourceCluster]: cluster, [labels.instanceNamespace]: namespace } = metadata?.labels ?? {};
  const name = instanceOfClaim(metadata?.name ?? "");
  if ((cluster !== source && cluster !== DEFAULT_CELL) || !namespace || !name) return undefined;
  return { namespace, name };
}

/**
 * What a claim with the name of an Instance is to it.
 *
 * - `own`: Berth made it, or has adopted it.
 * - `adoptable`: the original made it for this very Instance, which the original made as well.
 * - `wrong`: it carries the Instance's uid, and asks for something else than Berth would.
 * - `leftOver`: the original made it for an Instance that had this name.
 * - `foreign`: it is of another Instance.
 *
 * The original writes no uid into claims. Clocks tell nothing: the claim is in another cluster than the Instance.
 */
export type ClaimRelation = "own" | "adoptable" | "wrong" | "leftOver" | "foreign";

export function relationOf(
  claim: ResourceClaim,
  view: Pick<InstanceView, "instance" | "source" | "rules">,
  project: string,
): ClaimRelation {
  const { instance, source } = view;
  const { uid, labels: own = {} } = claim.metadata ?? {};
  const { [labels.sourceCluster]: cluster, [labels.instanceUid]: claimant } = own;
  if (own[labels.instanceNamespace] !== instance.metadata?.namespace) return "foreign";
  if (claimant !== undefined) {
    if (claimant !== instance.metadata?.uid || cluster !== source) return "foreign";
    return isAskedAs(claim, view, project) ? "own" : "wrong";
  }
  const { [annotations.claim]: adopted } = instance.metadata?.annotations ?? {};
  const { templateHash } = instance.spec?.controller ?? {};
  const isOfOriginal = templateHash !== undefined && !isOwnHash(templateHash);
  if (isOfOriginal && adopted === uid) return "own";
  return isOfOriginal && isAskedAs(claim, view, project) ? "adoptable" : "leftOver";
}

/** Does it ask the same project for the same as the claim that Berth would make? Other claims grant nothing. */
function isAskedAs(
  { spec }: ResourceClaim,
  view: Pick<InstanceView, "instance" | "source" | "rules">,
  project: string,
): boolean {
  const wanted = claimFor(view, project).spec;
  const amounts = (of: ResourceClaim["spec"]): string =>
    (of?.requests ?? [])
      .map(({ resourceType, amount }) => `${resourceType}=${amount}`)
      .toSorted()
      .join();
  const { apiGroup, kind, name } = spec?.consumerRef ?? {};
  const asked = wanted?.consumerRef;
  return (
    apiGroup === asked?.apiGroup &&
    kind === asked?.kind &&
    name === asked?.name &&
    amounts(spec) === amounts(wanted)
  );
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
