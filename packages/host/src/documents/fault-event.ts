import type { ObjectReference } from "@berth/kube";
import type { EventInput } from "@berth/runtime";
import type { Fault } from "./fault.ts";

/** The Event for a fault in a file. It says where the fault is and what follows from it. */
export function faultEvent(
  { file, line, column, reason, message }: Fault,
  regarding: ObjectReference,
): EventInput {
  const at = [file, line, column].filter((part) => part !== undefined).join(":");
  return { regarding, type: "Warning", reason, action: "ReadConfiguration", note: `${at}: ${message}` };
}
