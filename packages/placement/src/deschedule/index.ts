export { descheduleRules } from "./compile.ts";
export * from "./document.ts";
export * from "./resource.ts";
export { deschedule } from "./wiring.ts";
