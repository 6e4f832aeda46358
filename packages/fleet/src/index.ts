export * from "./api/workload.ts";
export * from "./fleet/document.ts";
export * from "./fleet/flags.ts";
export * from "./fleet/operator.ts";
export * from "./fleet/settings.ts";
export * from "./wiring.ts";
