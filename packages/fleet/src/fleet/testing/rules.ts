import { fleetKind, type InstanceRules } from "../document.ts";

/** Those of a Fleet that says nothing about Instances. */
export const RULES: InstanceRules = fleetKind.spec.parse({ mode: "single" });
