export * from "./api/workload.ts";
export * from "./fleet/document.ts";
