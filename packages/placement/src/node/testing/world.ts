/** A world for tests of rules that run again and again: nodes as plain data, patched as RFC 7396 says. */
import type { Node } from "@berth/kube";
import type { NodePatch } from "../patch.ts";

export interface NodeInit {
  readonly name?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly taints?: NonNullable<Node["spec"]>["taints"];
  readonly unschedulable?: boolean;
}

/** A node as the server would hold it. */
export function makeNode(init: NodeInit = {}): Node {
  const { name = "n1", labels, annotations, taints, unschedulable } = init;
  return {
    metadata: {
      name,
      uid: `uid-${name}`,
      resourceVersion: "1",
      ...(labels && { labels }),
      ...(annotations && { annotations }),
    },
    spec: { ...(taints && { taints }), ...(unschedulable && { unschedulable }) },
  };
}

/** The node after a merge patch, with the next resourceVersion. */
export function patchNode(node: Node, patch: NodePatch | object): Node {
  const patched = mergePatch(node, patch) as Node;
  return withVersion(patched, Number(node.metadata?.resourceVersion ?? 0) + 1);
}

/** An edit of another writer: same as a patch. */
export function editNode(
  node: Node,
  edit: {
    readonly labels?: Readonly<Record<string, string | null>>;
    readonly annotations?: Readonly<Record<string, string | null>>;
    readonly spec?: object;
  },
): Node {
  const { spec, ...metadata } = edit;
  return patchNode(node, { metadata, ...(spec && { spec }) });
}

function withVersion(node: Node, version: number): Node {
  return { ...node, metadata: { ...node.metadata, resourceVersion: String(version) } };
}

function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const merged = new Map(Object.entries(isObject(target) ? target : {}));
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) merged.delete(key);
    else merged.set(key, mergePatch(merged.get(key), value));
  }
  return Object.fromEntries(merged);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
