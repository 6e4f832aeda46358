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
  _pod: Pod,
  _how: "True" | "PendingOk",
  _ground: Ground,
  _placed?: readonly { readonly pod: Pod; readonly node: string }[],
): FitResult {
  return { reason: "NoOtherNode", message: "" };
}
