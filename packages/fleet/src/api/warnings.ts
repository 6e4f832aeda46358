/** Warnings about Workloads that are valid, and of which a part runs nowhere. */
import { silencedBy } from "@berth/host";
import type { ObjectMeta } from "@berth/kube";
import { annotations } from "./keys.ts";
import type { HubReason } from "./reasons.ts";

export interface WorkloadWarning {
  readonly code: HubReason;
  readonly message: string;
}

/** Without those that the author of the Workload has silenced. */
export function told(
  warnings: readonly WorkloadWarning[],
  metadata: Pick<ObjectMeta, "annotations"> | undefined,
): readonly WorkloadWarning[] {
  const silenced = silencedBy(metadata?.annotations, annotations.silence);
  return warnings.filter(({ code }) => !silenced.includes(code));
}
