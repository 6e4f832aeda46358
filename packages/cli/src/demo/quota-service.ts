/** The quota service of the demo. Another product brings the real one; Berth only reads and writes its claims. */
import {
  type Condition,
  type CustomResourceDefinition,
  defineResource,
  type KubeClient,
  type KubeObject,
} from "@berth/kube";
import { findCondition, toTime } from "@berth/runtime";

interface Claim extends KubeObject {
  readonly status?: { readonly conditions?: readonly Condition[] };
}

const claims = defineResource<Claim>({
  group: "quota.miloapis.com",
  version: "v1alpha1",
  plural: "resourceclaims",
  kind: "ResourceClaim",
  namespaced: true,
});

/** Takes any claim. The real kind checks what a claim asks for. */
export const claimCrd: CustomResourceDefinition = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: `${claims.plural}.${claims.group}` },
  spec: {
    group: claims.group,
    scope: "Namespaced",
    names: { plural: claims.plural, kind: claims.kind },
    versions: [
      {
        name: claims.version,
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
      },
    ],
  },
};

const GRANTED = { status: "True", reason: "QuotaAvailable", message: "The claim fits the budget" } as const;
const DENIED = { status: "False", reason: "QuotaExceeded", message: "The claim exceeds the budget" } as const;

/** Decides about all claims once: it grants as many as the budget has Instances, in the order of names, and denies the others. */
export async function grantClaims(client: KubeClient, budget: number): Promise<void> {
  const { items } = await client.list(claims, { namespace: "default" });
  const isGranted = ({ status }: Claim): boolean =>
    findCondition(status?.conditions, "Granted")?.status === "True";
  let left = budget - items.filter(isGranted).length;
  for (const claim of items.filter((it) => !isGranted(it))) {
    const answer = left-- > 0 ? GRANTED : DENIED;
    const { namespace = "", name = "" } = claim.metadata ?? {};
    if (findCondition(claim.status?.conditions, "Granted")?.reason === answer.reason) continue;
    const condition = { type: "Granted", ...answer, lastTransitionTime: toTime(Date.now()) };
    const body = { status: { conditions: [condition] } };
    await client.patch(claims, { namespace, name }, { type: "merge", body }, { subresource: "status" });
  }
}
