/** What the kinds of Berth have in common on the API server. */
import type { ServedKind } from "@berth/host";
import { type Condition, defineResource, type KubeObject, type Resource } from "@berth/kube";
import * as z from "zod";
import { API_GROUP, API_GROUP_VERSION } from "./group.ts";

/** An object of such a kind on the wire. `S` is its status without conditions. */
export interface Served<S> extends KubeObject {
  /** As stored, perhaps with the CRD of another release of Berth. Parse it before use. */
  readonly spec?: unknown;
  readonly status?: S & { readonly conditions?: readonly Condition[] };
}

export function servedResource<T extends KubeObject>(plural: string, kind: string): Resource<T> {
  return defineResource({ group: API_GROUP, version: API_GROUP_VERSION, plural, kind, namespaced: false });
}

/** A number of a status. */
export const count = (what: string): z.ZodType => z.int().min(0).optional().describe(what);

export type Column = ServedKind["columns"][number];

export function column(name: string, type: Column["type"], jsonPath: string, description: string): Column {
  return { name, type, jsonPath, description };
}

/** Only `kubectl get -o wide` shows it. */
export function wide(shown: Column): Column {
  return { ...shown, priority: 1 };
}

/** The path of a field of the condition of a type. */
export function condition(type: string, field: "status" | "reason" = "status"): string {
  return `.status.conditions[?(@.type=="${type}")].${field}`;
}

export const age: Column = { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" };
