/** What there is to know of a kind of document: how files and the cluster say it, and how it is read. */

import {
  apiVersionOf,
  type CustomResourceColumnDefinition,
  type CustomResourceDefinition,
  type CustomResourceSubresourceScale,
  customResourceDefinitions,
  type KubeObject,
  nameOfResource,
  type Resource,
} from "@berth/kube";
import type * as z from "zod";
import { toStructuralSchema } from "./crd-schema.ts";

/** A kind that a CRD adds to the API: all that the CRD is made of. */
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

/** A document as an object of a cluster. Its spec may be of another release. */
export type DocumentObject = KubeObject & { readonly spec?: unknown };

/** A kind of document that files may hold. `S` is the spec as the schema gives it. */
export interface DocumentKind<S = unknown> {
  readonly kind: string;
  readonly spec: z.ZodType<S>;
  /** There can be one document of the kind. Gives what is wrong with a second one. Default: any number. */
  tooMany?(first: { readonly spec: S; readonly file: string }): {
    readonly reason: string;
    readonly message: string;
  };
  /** The spec with its relative paths resolved. Default: as it is. */
  placed?(spec: S, place: FilePlace): S;
}

/** Where a document stands: relative paths in it start at `folder`. */
export interface FilePlace {
  /** Absolute: the folder of its file. */
  readonly folder: string;
  /** As the user named it. */
  readonly file: string;
}

/** A kind of document that is in the API of a cluster as well. */
export interface ServedKind<S = unknown> extends DocumentKind<S>, CustomKind {
  readonly resource: Resource<DocumentObject>;
  readonly spec: z.ZodType<S>;
  /**
   * What a CRD means that stays away for longer than the grace period. `keep`: marks stay as they stand. `release`: all
   * objects count as deleted.
   */
  readonly whenAway: "keep" | "release";
  /** Annotations that are read: a change of any other is no change. Default none. */
  readonly annotations?: readonly string[];
}

/** All kinds that files may hold, of one `apiVersion`. */
export interface KindList {
  readonly apiVersion: string;
  readonly kinds: readonly DocumentKind[];
}

export function isServed(kind: DocumentKind): kind is ServedKind {
  return "resource" in kind;
}

/** For `DocumentKind.tooMany`. */
export function onlyOne(kind: string): NonNullable<DocumentKind<never>["tooMany"]> {
  return ({ file }) => ({
    reason: "DuplicateDocument",
    message: `there can be one ${kind}, and there is already one in ${file}`,
  });
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
