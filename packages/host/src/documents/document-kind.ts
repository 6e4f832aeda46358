/** Describes a kind of document: its form in files and in the cluster, and how Berth reads it. */

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
import type { Product } from "../product.ts";
import { toStructuralSchema } from "./crd-schema.ts";
import type { Shown } from "./remark.ts";

/** A kind that a CRD adds to the API, with the contents of the CRD. */
export interface CustomKind {
  readonly resource: Resource;
  readonly singular: string;
  readonly shortNames: readonly string[];
  /** Default: the name of the product, as in `kubectl get berth`. */
  readonly categories?: readonly string[];
  /** First words of the output of `kubectl explain`. */
  readonly description: string;
  /** Parses the spec as users write it, and fills in defaults. */
  readonly spec: z.ZodType;
  readonly status: z.ZodType;
  /** Columns of `kubectl get`. Those with priority 1 appear only with `-o wide`. */
  readonly columns: readonly CustomResourceColumnDefinition[];
  /** Paths that `kubectl scale` and autoscalers use. Default: the kind cannot be scaled. */
  readonly scale?: CustomResourceSubresourceScale;
  /** What `status` shows of an object. Default: its condition Ready; of kinds of other projects nothing. */
  readonly shown?: Shown;
  /** Of the CRD itself, for other programs that read it. Default none. */
  readonly crdAnnotations?: Readonly<Record<string, string>>;
}

/** A document as an object of a cluster. Another release of Berth may have written its spec. */
export type DocumentObject = KubeObject & { readonly spec?: unknown };

/** A kind of document that files may contain. `S` is the parsed spec. */
export interface DocumentKind<S = unknown> {
  readonly kind: string;
  readonly spec: z.ZodType<S>;
  /** Defined when only one document of the kind may exist. Returns the fault of a second one. Default: any number. */
  tooMany?(first: { readonly spec: S; readonly file: string }): {
    readonly reason: string;
    readonly message: string;
  };
  /** Groups of the API whose documents it names in files: they may stand beside it, and are left alone. Default none. */
  readonly besides?: readonly string[];
  /** Returns the spec with its relative paths resolved. Default: the spec as it is. */
  placed?(spec: S, place: FilePlace): S;
}

/** The place of a document. Relative paths in it start at `folder`. */
export interface FilePlace {
  /** Absolute: the folder of its file. */
  readonly folder: string;
  /** As the user named it. */
  readonly file: string;
}

/** A kind of document that the API of a cluster serves as well. */
export interface ServedKind<S = unknown> extends DocumentKind<S>, CustomKind {
  readonly resource: Resource<DocumentObject>;
  readonly spec: z.ZodType<S>;
  /**
   * What happens when the CRD is not served for longer than the grace period. `keep`: no document is in force, and marks
   * stay as they are. `release`: all objects count as deleted.
   */
  readonly whenAway: "keep" | "release";
  /** Annotations that Berth reads. A change of another annotation is ignored. Default none. */
  readonly annotations?: readonly string[];
}

/** All kinds that files may contain, with their common `apiVersion`. */
export interface KindList {
  readonly apiVersion: string;
  readonly kinds: readonly DocumentKind[];
}

export function isServed(kind: DocumentKind): kind is ServedKind {
  return "resource" in kind;
}

/** A value for `DocumentKind.tooMany`. */
export function onlyOne(kind: string): NonNullable<DocumentKind<never>["tooMany"]> {
  return ({ file }) => ({
    reason: "DuplicateDocument",
    message: `there can be one ${kind}, and there is already one in ${file}`,
  });
}

/** @throws TypeError when a CRD cannot express a schema. */
export function toCustomResourceDefinition(
  kind: CustomKind,
  { name }: Pick<Product, "name">,
): CustomResourceDefinition {
  const {
    resource,
    singular,
    shortNames,
    categories = [name],
    description,
    columns,
    scale,
    crdAnnotations,
  } = kind;
  const { group, version, plural, namespaced } = resource;
  return {
    apiVersion: apiVersionOf(customResourceDefinitions),
    kind: customResourceDefinitions.kind,
    metadata: {
      name: nameOfResource(resource),
      labels: { "app.kubernetes.io/name": name },
      ...(crdAnnotations && { annotations: crdAnnotations }),
    },
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
