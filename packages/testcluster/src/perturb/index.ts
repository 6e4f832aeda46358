export {
  describeHistory,
  describeKeyChange,
  flaps,
  foreignTouched,
  type KeyChange,
  keyChanges,
} from "./forbidden.ts";
export type { Author, HistoryEntry } from "./history.ts";
export {
  describeResult,
  describeViolation,
  type PerturbOptions,
  type PerturbProgress,
  type PerturbResult,
  perturb,
  type Violation,
} from "./perturb.ts";
export { type Pattern, type Point, patterns } from "./point.ts";
export { NUDGE } from "./stage.ts";
export type { Connection, Fence, PerturbationStory, Scene, Stage, Step } from "./story.ts";
