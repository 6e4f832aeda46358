/** The kinds of documents of all capabilities. */
import {
  admissionServerKind,
  type CustomKind,
  isServed,
  type KindList,
  kindsOf,
  type ServedKind,
  toCustomResourceDefinition,
} from "@berth/host";
import type { CustomResourceDefinition } from "@berth/kube";
import { API_GROUP, API_GROUP_VERSION } from "@berth/placement";
import { capabilities } from "./capabilities.ts";

/** All that configuration files may hold, in the order in which messages name them. */
export const documentKinds: KindList = kindsOf(`${API_GROUP}/${API_GROUP_VERSION}`, capabilities, [
  admissionServerKind,
]);

/** Those that a cluster may have as well. */
export const servedKinds: readonly ServedKind[] = documentKinds.kinds.filter(isServed);

/** Kinds of other projects that Berth serves where it is asked to. */
export const foreignKinds: readonly CustomKind[] = capabilities.flatMap((it) => it.foreignKinds ?? []);

/** The CRDs of all documents. @param more kinds of other projects, which have installed them where they are used. */
export function crds(more: readonly CustomKind[] = []): readonly CustomResourceDefinition[] {
  return [...servedKinds, ...more].map(toCustomResourceDefinition);
}
