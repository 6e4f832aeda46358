import type { Node, Pod } from "@berth/kube";
export interface Ground {
  readonly nodes: Iterable<Node>;
  podsOn(node: string): readonly Pod[];
  namespaceLabels(name: string): Readonly<Record<string, string>> | undefined;
}
export type FitResult =
  | { readonly node: string }
  | { readonly reason: "NoOtherNode" | "FitUnknown"; readonly message: string };
export function findFit(
  pod: Pod,
  _how: "True" | "PendingOk",
  ground: Ground,
  _placed?: readonly { readonly pod: Pod; readonly node: string }[],
): FitResult {
  const wanted = Object.entries(pod.spec?.nodeSelector ?? {});
  for (const { metadata } of ground.nodes) {
    const isRight = wanted.every(([key, value]) => metadata?.labels?.[key] === value);
    if (isRight && metadata?.name !== pod.spec?.nodeName) return { node: metadata?.name ?? "" };
  }
  return { reason: "NoOtherNode", message: "no other node has what it asks for" };
}
