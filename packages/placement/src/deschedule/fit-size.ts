/** How much a pod says about where it can run. */
import type { Pod, PodSpec } from "@berth/kube";

/** About how many texts `placementCheck` compares for a node. */
export function placementSize({ spec }: Pod): number {
  return sizeOf([spec?.nodeSelector, spec?.affinity?.nodeAffinity, spec?.tolerations]);
}

/** How much a pod may say about where it can run, in entries (`sizeOf`). Its owner writes it, and others pay. */
export const MAX_ENTRIES = 1_000;

/** `isCut`: it says more, and nothing of that is kept. Its anti-affinity keeps out all pods that it could be about. */
export interface KeptPodSpec extends PodSpec {
  readonly isCut?: true;
}

/** How many entries a value has: texts, numbers, lists and maps. */
export function sizeOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 1;
  let size = 1;
  for (const part of Object.values(value)) size += sizeOf(part);
  return size;
}
