/**
 * Whether a Deployment already is what would be applied, so that nothing is sent then.
 *
 * Two questions. Does each value that we want stand? Server defaults beside them do not count, and an empty value is as
 * good as none. And is exactly that ours: `managedFields` names the fields of our last apply, as fine as the server
 * merges them. One that is there and no longer wanted would be taken off by an apply; one that is wanted and not there
 * was changed by somebody else since, and would not be taken off later.
 */
import type { Deployment } from "@berth/kube";
import { itemKey, ownEntry } from "../node/managed-fields.ts";
import { isSameQuantity } from "../node/quantity.ts";

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

/** The first place where they differ, with what is there; `undefined` when an apply would change nothing. */
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
    // An empty struct holds what others put into it.
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
  // Without more below it is owned as a whole.
  if (owned.length === 0) return undefined;
  return (
    firstOf(owned, (name) => {
      const below = fields[name];
      return isRecord(below) ? surplus(wanted, name, below, place) : undefined;
    }) ?? lack(wanted, owned, place)
  );
}

/** What is owned and no longer wanted. */
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

/** What is wanted and not owned. Nothing can be lost of what is empty. */
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

/** Of the list at this place: `.spec.template.spec.containers` → `name`. */
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

/** What the API leaves out of an object when it writes it. */
function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return true;
  if (Array.isArray(value)) return value.length === 0;
  return isRecord(value) && Object.keys(value).length === 0;
}
