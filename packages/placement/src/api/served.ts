/** What the kinds of Berth have in common on the API server. */
import {
  type Conditioned,
  conditionOf,
  conditions,
  observedGeneration,
  type Remark,
  type ServedKind,
  toRemark,
} from "@berth/host";
import { defineResource, type KubeObject, type Resource } from "@berth/kube";
import * as z from "zod";
import { API_GROUP, API_GROUP_VERSION } from "./group.ts";
import { reasons } from "./reasons.ts";

/** An object of such a kind on the wire. */
export interface Served<S> extends KubeObject {
  /** As stored, perhaps with the CRD of another release of Berth. Parse it before use. */
  readonly spec?: unknown;
  readonly status?: S;
}

/** The schema of a status: these fields, and those that all kinds share. */
export const statusWith = <T extends z.core.$ZodLooseShape>(fields: T) =>
  z
    .strictObject({ observedGeneration, ...fields, conditions })
    .readonly()
    .describe("What Berth observed last. Only Berth writes it.");

export function servedResource<T extends KubeObject>(plural: string, kind: string): Resource<T> {
  return defineResource({ group: API_GROUP, version: API_GROUP_VERSION, plural, kind, namespaced: false });
}

/** A number of a status. */
export const count = (what: string) => z.int().min(0).optional().describe(what);

/** The first names of many, for a status: at most `most`, each of at most `length` characters. */
export const names = (what: string, { most, length }: { readonly most: number; readonly length: number }) =>
  z.array(z.string().max(length)).max(most).readonly().optional().describe(what);

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

/** Why the API server does not ask Berth. It can be so on purpose. */
export function admissionRemarks(object: Conditioned, type: string): readonly Remark[] {
  const asked = conditionOf(object, type);
  if (asked?.status !== "False") return [];
  return [{ ...toRemark(asked), needsPerson: asked.reason !== reasons.AdmissionOff }];
}
