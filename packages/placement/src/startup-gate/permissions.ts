import { type AskedPermissions, admissionPermissions, type Permission } from "@berth/host";
import { readsPods } from "../node/permissions.ts";
import { gateAdmission } from "./admission.ts";

export function gatePermissions(asked: AskedPermissions): readonly Permission[] {
  return [
    ...readsPods,
    ...admissionPermissions(gateAdmission, asked),
    ...admissionPermissions({ name: "direct-binding", effect: "validate" }, asked),
  ];
}
