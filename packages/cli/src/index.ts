export { runCli } from "./cli.ts";
export { type BerthOptions, type RunningBerth, startBerth } from "./composition.ts";
export type { LabelFolderSource } from "./config/settings.ts";
export { type ExitCode, exitCodeMeanings, exitCodes } from "./exit-codes.ts";
export type { Environment, Output, Outside } from "./surroundings.ts";
