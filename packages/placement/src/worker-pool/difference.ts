/**
 * Checks whether a Deployment already equals the next apply, so that Berth need not send it.
 *
 * It asks two questions. Is each wanted value there? Server defaults do not count, and an empty value equals none. Does
 * Berth own exactly these fields? `managedFields` names the fields of its last apply, as finely as the server merges
 * them. An apply would remove a field that Berth owns and no longer wants. If Berth wants a field and does not own it,
 * another writer has changed it, and a later apply would not remove it.
 */
import type { Deployment } from "@berth/kube";
import { isSameQuantity } from "@berth/runtime";
import { itemKey, ownEntry } from "../node/managed-fields.ts";

type Json = Readonly<Record<string, unknown>>;

/** The lists that the API merges by a key (`x-kubernetes-list-map-keys` of apps/v1 and core/v1). Others are one value. */
const LIST_KEYS: Readonly<Record<string, string>> = {
  ownerReferences: "uid",
  containers: "name",
  initContainers: "name",
  volumes: "name",
  env: "name",
  volumeMounts: "mountPath",
  claims: "name",
};

const QUANTITY_PLACE = /\.resources\.(?:limits|requests)\./;

/** The first place that differs, with its present value; `undefined` when an apply would change nothing. */
export function differenceOf(
  body: Pick<Deployment, "metadata" | "spec">,
  standing: Deployment,
  manager: string,
): string | undefined {
  const { metadata, spec } = body;
  const wanted = { metadata: { ownerReferences: metadata?.ownerReferences }, spec };
  const value = valueDifference(wanted, standing, "");
  if (value !== undefined) return value;
  const entry = ownEntry(standing.metadata?.managedFields ?? [], manager);
  if (entry?.fieldsV1 === undefined) return `no field is owned by ${manager}`;
  return ownershipDifference(wanted, entry.fieldsV1, "");
}

function valueDifference(wanted: unknown, standing: unknown, place: string): string | undefined {
  if (isEmpty(wanted) && isEmpty(standing)) return undefined;
  if (Array.isArray(wanted)) {
    return Array.isArray(standing) ? listDifference(wanted, standing, place) : `${place} is missing`;
  }
  if (isRecord(wanted)) {
    // An empty struct keeps the fields that others put into it.
    if (!isRecord(standing)) return isEmpty(wanted) ? undefined : `${place} is missing`;
    return firstOf(Object.keys(wanted), (name) =>
      valueDifference(wanted[name], standing[name], `${place}.${name}`),
    );
  }
  if (wanted === standing) return undefined;
  if (
    QUANTITY_PLACE.test(place) &&
    isScalar(wanted) &&
    isScalar(standing) &&
    isSameQuantity(String(wanted), String(standing))
  )
    return undefined;
  return `${place} is ${JSON.stringify(standing) ?? "missing"}`;
}

function listDifference(
  wanted: readonly unknown[],
  standing: readonly unknown[],
  place: string,
): string | undefined {
  const key = keyOfList(place);
  if (key === undefined) {
    if (wanted.length !== standing.length) return `${place} has ${standing.length} entries`;
    return firstOf([...wanted.keys()], (at) => valueDifference(wanted[at], standing[at], `${place}[${at}]`));
  }
  return firstOf(wanted, (item) => {
    const id = isRecord(item) ? item[key] : undefined;
    return valueDifference(item, itemOf(standing, key, id), `${place}[${String(id)}]`);
  });
}

/** `fields` is a node of FieldsV1: `f:` leads into a field, `k:` into an item of a list by its key, `.` is the node itself. */
function ownershipDifference(wanted: unknown, fields: Json, place: string): string | undefined {
  const owned = Object.keys(fields).filter((name) => name !== ".");
  // A field without entries below it is owned as a whole.
  if (owned.length === 0) return undefined;
  return (
    firstOf(owned, (name) => {
      const below = fields[name];
      return isRecord(below) ? surplus(wanted, name, below, place) : undefined;
    }) ?? lack(wanted, owned, place)
  );
}

/** A field that is owned and no longer wanted. */
function surplus(wanted: unknown, name: string, fields: Json, place: string): string | undefined {
  if (name.startsWith("f:")) {
    const field = name.slice(2);
    const at = `${place}.${field}`;
    if (!isRecord(wanted) || !Object.hasOwn(wanted, field)) return `${at} is no longer wanted`;
    return ownershipDifference(wanted[field], fields, at);
  }
  const key = keyOfList(place);
  const id = key === undefined ? undefined : itemKey(name, key);
  const item = key !== undefined && Array.isArray(wanted) ? itemOf(wanted, key, id) : undefined;
  if (item === undefined) return `${place} has an entry ${name} that is no longer wanted`;
  return ownershipDifference(item, fields, `${place}[${String(id)}]`);
}

/** A field that is wanted and not owned. An empty field has nothing to lose. */
function lack(wanted: unknown, owned: readonly string[], place: string): string | undefined {
  const key = keyOfList(place);
  if (Array.isArray(wanted)) {
    if (key === undefined) return undefined;
    const ids = new Set(owned.map((name) => itemKey(name, key)));
    const lost: unknown = wanted.find((item) => isRecord(item) && !ids.has(item[key]));
    return isRecord(lost) ? `${place}[${String(lost[key])}] is not owned any more` : undefined;
  }
  if (!isRecord(wanted)) return undefined;
  const lost = Object.keys(wanted).find((name) => !isEmpty(wanted[name]) && !owned.includes(`f:${name}`));
  return lost === undefined ? undefined : `${place}.${lost} is not owned any more`;
}

function itemOf(list: readonly unknown[], key: string, id: unknown): unknown {
  return list.find((item) => isRecord(item) && item[key] === id);
}

/** Merge key of the list at this place: `.spec.template.spec.containers` → `name`. */
function keyOfList(place: string): string | undefined {
  return LIST_KEYS[place.slice(place.lastIndexOf(".") + 1)];
}

function firstOf<T>(items: readonly T[], find: (item: T) => string | undefined): string | undefined {
  for (const item of items) {
    const found = find(item);
    if (found !== undefined) return found;
  }
  return undefined;
}

function isScalar(value: unknown): value is string | number {
  return typeof value === "string" || typeof value === "number";
}

function isRecord(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A value that the API server omits when it writes an object. */
function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return true;
  if (Array.isArray(value)) return value.length === 0;
  return isRecord(value) && Object.keys(value).length === 0;
}
