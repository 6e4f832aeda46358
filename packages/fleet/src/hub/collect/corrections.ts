import { isDeepStrictEqual } from "node:util";
import type { Instance, InstanceStatus } from "../../api/workload.ts";

/** What makes an Instance of another plane right, as far as that can be changed. */
export interface Corrections {
  /** A merge patch of labels. Those of others stay. */
  readonly patch?: object | undefined;
  /** The whole status. */
  readonly status?: InstanceStatus | undefined;
}

export function corrections(present: Instance, wanted: Instance): Corrections {
  const labels = Object.entries(wanted.metadata?.labels ?? {}).filter(
    ([key, value]) => present.metadata?.labels?.[key] !== value,
  );
  return {
    ...(labels.length > 0 && { patch: { metadata: { labels: Object.fromEntries(labels) } } }),
    ...(!isDeepStrictEqual(present.status, wanted.status) && { status: wanted.status }),
  };
}
