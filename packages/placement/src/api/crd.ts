/** The CustomResourceDefinitions of Berth, made from the zod schemas that files are read with. */

import { toStructuralSchema } from "@berth/host";
import {
  apiVersionOf,
  type CustomResourceColumnDefinition,
  type CustomResourceDefinition,
  type CustomResourceSubresourceScale,
  customResourceDefinitions,
  nameOfResource,
  type Resource,
} from "@berth/kube";
import type * as z from "zod";
import { architecturePolicyKind } from "../architecture/resource.ts";
import { nodeFootprintKind } from "../footprint/resource.ts";
import { labelRuleKind } from "../labels/resource.ts";
import { startupGateKind } from "../startup-gate/resource.ts";
import { workerPoolKind } from "../worker-pool/resource.ts";

/** A kind that Berth adds to the API: all that its CRD is made of. */
export interface CustomKind {
  readonly resource: Resource;
  readonly singular: string;
  readonly shortNames: readonly string[];
  /** Default: what `kubectl get berth` shows. */
  readonly categories?: readonly string[];
  /** First words of `kubectl explain`. */
  readonly description: string;
  /** Parses what users write, defaults included. */
  readonly spec: z.ZodType;
  readonly status: z.ZodType;
  /** What `kubectl get` shows; those with priority 1 only with `-o wide`. */
  readonly columns: readonly CustomResourceColumnDefinition[];
  /** Where `kubectl scale` and autoscalers write and read. Default: they cannot. */
  readonly scale?: CustomResourceSubresourceScale;
}

/** All documents of Berth, in the order in which they are printed. A new kind is an entry here. */
export const customKinds: readonly CustomKind[] = [
  labelRuleKind,
  startupGateKind,
  architecturePolicyKind,
  nodeFootprintKind,
];

/** The definitions of all kinds, those that Berth only serves included: applying them is all a cluster needs. */
export function crds(): readonly CustomResourceDefinition[] {
  return [...customKinds, workerPoolKind].map(toCustomResourceDefinition);
}

/** @throws TypeError when a schema says something that a CRD cannot say. */
export function toCustomResourceDefinition(kind: CustomKind): CustomResourceDefinition {
  const { resource, singular, shortNames, categories = ["berth"], description, columns, scale } = kind;
  const { group, version, plural, namespaced } = resource;
  return {
    apiVersion: apiVersionOf(customResourceDefinitions),
    kind: customResourceDefinitions.kind,
    metadata: { name: nameOfResource(resource), labels: { "app.kubernetes.io/name": "berth" } },
    spec: {
      group,
      scope: namespaced ? "Namespaced" : "Cluster",
      names: {
        plural,
        singular,
        kind: resource.kind,
        listKind: `${resource.kind}List`,
        shortNames,
        ...(categories.length > 0 && { categories }),
      },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {}, ...(scale && { scale }) },
          additionalPrinterColumns: columns,
          schema: {
            openAPIV3Schema: {
              description,
              type: "object",
              required: ["spec"],
              properties: {
                spec: toStructuralSchema(kind.spec),
                status: toStructuralSchema(kind.status),
              },
            },
          },
        },
      ],
    },
  };
}
