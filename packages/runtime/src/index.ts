export * from "./clock.ts";
export * from "./key.ts";
export * from "./lister.ts";
export * from "./log.ts";
export * from "./metrics.ts";
export * from "./reconcile.ts";
