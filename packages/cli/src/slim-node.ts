import type { Node } from "@berth/kube";

/** Most of a Node's bytes are of no use here: who wrote which field, and the images it has pulled. */
export function slimNode(node: Node): Node {
  const { metadata, status } = node as {
    metadata?: { managedFields?: unknown };
    status?: { images?: unknown };
  };
  if (metadata !== undefined) delete metadata.managedFields;
  if (status !== undefined) delete status.images;
  return node;
}
