export { waitContainer } from "../api/wait-container.ts";
export * from "./capability.ts";
export { compileFootprints, footprintRules } from "./compile.ts";
export * from "./footprint.ts";
export * from "./footprint-sight.ts";
export { footprintOnce } from "./once.ts";
export { type WaitAnswers, waitAdmission } from "./wait/admission.ts";
export { admitWait } from "./wait/admit.ts";
export { type WiredFootprints, wireFootprints } from "./wiring.ts";
