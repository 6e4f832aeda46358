import type { FieldMask } from "@berth/host";
import type { Pod } from "@berth/kube";
import { markFields } from "../node/mark.ts";
export const podFitFields: FieldMask = [...markFields, "metadata.deletionTimestamp", "status.allocatable"];
export function slimPod(pod: Pod): Pod {
  return pod;
}
