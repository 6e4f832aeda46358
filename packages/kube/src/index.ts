export * from "./client.ts";
export * from "./failure.ts";
export * from "./generated/resources.ts";
export * from "./generated/wire.ts";
export * from "./object.ts";
export * from "./resource.ts";
