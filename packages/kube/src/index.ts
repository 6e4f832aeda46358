export * from "./client.ts";
export * from "./failure.ts";
export * from "./object.ts";
export * from "./resource.ts";
