export type { LabelFolderSource } from "@berth/placement";
export { runCli } from "./cli.ts";
export type { Environment, Output, Outside } from "./command-deps.ts";
export { type BerthOptions, type RunningBerth, startBerth } from "./composition.ts";
export { type ExitCode, exitCodeMeanings, exitCodes } from "./exit-codes.ts";
export { crds, foreignKinds, servedKinds } from "./kinds.ts";
