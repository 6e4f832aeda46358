/** How kubectl shows the kinds, and how a control plane finds them. */
import type { CustomKind } from "@berth/host";
import type { CustomResourceColumnDefinition as Column } from "@berth/kube";
import { annotations } from "../api/keys.ts";

/** The names are those of the original, which has no others. Milo serves the kinds in each project. */
export const common: Pick<CustomKind, "shortNames" | "categories" | "crdAnnotations"> = {
  shortNames: [],
  categories: [],
  crdAnnotations: { [annotations.parentContexts]: "Project" },
};

/** @param priority 1: only with `-o wide`. */
export const column = (title: string, field: string, type = "string", priority = 0): Column => ({
  name: title,
  type,
  jsonPath: field,
  ...(priority > 0 && { priority }),
});
/** The path of a field of the condition of a type. */
export const condition = (type: string, field: string): string =>
  `.status.conditions[?(@.type=="${type}")].${field}`;

export const age: Column = column("Age", ".metadata.creationTimestamp", "date");
export const available: readonly Column[] = [
  column("Available", condition("Available", "status")),
  column("Reason", condition("Available", "reason")),
];
export const replicas: readonly Column[] = [
  column("Replicas", ".status.replicas", "integer"),
  column("Ready", ".status.readyReplicas", "integer"),
  column("Desired", ".status.desiredReplicas", "integer"),
  column("Up-to-date", ".status.updatedReplicas", "integer"),
];
