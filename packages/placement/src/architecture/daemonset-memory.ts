/** What is remembered of one DaemonSet while this process lives. */
import { createTemplateMemory, type TemplateMemory } from "../node/template-memory.ts";

export interface DaemonSetMemory extends TemplateMemory {
  /** Since when its images are waited for, by the wall clock, and which: others are waited for anew. */
  heldSince: number | undefined;
  images: string;
}

export function createDaemonSetMemory(uid: string): DaemonSetMemory {
  return { ...createTemplateMemory(uid), heldSince: undefined, images: "" };
}
