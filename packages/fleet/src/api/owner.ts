import type { KubeObject } from "@berth/kube";

type Owner = NonNullable<NonNullable<KubeObject["metadata"]>["ownerReferences"]>[number];

/** The object that controls this one. A label may be lost, and this may not. */
export function ownerOf({ metadata }: KubeObject): Owner | undefined {
  return metadata?.ownerReferences?.find(({ controller }) => controller === true);
}

export function isOwnedBy(object: KubeObject, { metadata }: KubeObject): boolean {
  return metadata?.uid !== undefined && ownerOf(object)?.uid === metadata.uid;
}
