/** The kinds of documents: a new kind is a line here. */
import {
  admissionServerKind,
  type CustomKind,
  isServed,
  type KindList,
  type ServedKind,
  toCustomResourceDefinition,
} from "@berth/host";
import type { CustomResourceDefinition } from "@berth/kube";
import {
  API_GROUP,
  API_GROUP_VERSION,
  architecturePolicyKind,
  imageRegistriesKind,
  labelFolderKind,
  labelRuleKind,
  nodeFootprintKind,
  startupGateKind,
  workerPoolKind,
  workerPoolsKind,
} from "@berth/placement";

/** All that configuration files may hold, in the order in which messages name them. */
export const documentKinds: KindList = {
  apiVersion: `${API_GROUP}/${API_GROUP_VERSION}`,
  kinds: [
    labelFolderKind,
    labelRuleKind,
    startupGateKind,
    architecturePolicyKind,
    nodeFootprintKind,
    admissionServerKind,
    imageRegistriesKind,
    workerPoolsKind,
  ],
};

/** Those that a cluster may have as well. */
export const servedKinds: readonly ServedKind[] = documentKinds.kinds.filter(isServed);

/** Kinds of other projects that Berth serves where it is asked to. */
export const foreignKinds: readonly CustomKind[] = [workerPoolKind];

/** The CRDs of all documents. @param more kinds of other projects, which have installed them where they are used. */
export function crds(more: readonly CustomKind[] = []): readonly CustomResourceDefinition[] {
  return [...servedKinds, ...more].map(toCustomResourceDefinition);
}
