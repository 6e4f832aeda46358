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
import { API_GROUP, API_GROUP_VERSION, product } from "@berth/placement";
import { capabilities } from "./capabilities.ts";

/** The kinds that configuration files may contain, in the order of messages. */
export const documentKinds: KindList = kindsOf(`${API_GROUP}/${API_GROUP_VERSION}`, capabilities, [
  admissionServerKind,
]);

/** The kinds that a cluster may also have. */
export const servedKinds: readonly ServedKind[] = documentKinds.kinds.filter(isServed);

/** Kinds that Berth serves on request. @param names of capabilities. Default all. */
export function foreignKinds(names?: readonly string[]): readonly CustomKind[] {
  const asked = capabilities.filter(({ name }) => names === undefined || names.includes(name));
  return asked.flatMap((it) => it.foreignKinds ?? []);
}

/** The CRDs of all documents. @param more of `foreignKinds`. The cluster may have their CRDs already. */
export function crds(more: readonly CustomKind[] = []): readonly CustomResourceDefinition[] {
  return [...servedKinds, ...more].map((kind) => toCustomResourceDefinition(kind, product));
}
