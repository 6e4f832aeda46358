import type { ConfigMap, Namespace } from "@berth/kube";

/** On a source: `*`, or namespaces separated by commas. */
export const TO = "copier.example.com/to";
/** On a copy: `namespace/name` of its source. An object with it is ours to change and to delete; no other is. */
export const FROM = "copier.example.com/from";

export interface Observed {
  readonly source: string;
  /** `undefined` when it is gone. */
  readonly object: ConfigMap | undefined;
  readonly namespaces: readonly Namespace[];
  /** All ConfigMaps of the source's name, and all copies of it. */
  readonly present: readonly ConfigMap[];
}

export interface Decision {
  readonly create: readonly ConfigMap[];
  /** With the resourceVersion that they were decided on. */
  readonly replace: readonly ConfigMap[];
  readonly remove: readonly ConfigMap[];
  /** Namespaces where a ConfigMap of another owner has the name. */
  readonly occupied: readonly string[];
}

/** What is left to do until every target has its copy and no other namespace has one. */
export function decide({ source, object, namespaces, present }: Observed): Decision {
  const targets = targetsOf(object, namespaces);
  const at = new Map(
    present.filter((one) => one.metadata?.name === object?.metadata?.name).map((one) => [spaceOf(one), one]),
  );
  const standing = targets.flatMap((space) => at.get(space) ?? []);
  const ours = standing.filter((one) => sourceOf(one) === source);
  return {
    create: targets.filter((space) => !at.has(space)).map((space) => newCopy(object, space, source)),
    replace: ours.filter((copy) => !isSameContent(copy, object)).map((copy) => withContent(copy, object)),
    remove: present.filter((one) => sourceOf(one) === source && !ours.includes(one)),
    occupied: standing.filter((one) => !ours.includes(one)).map(spaceOf),
  };
}

/** A copy is never a source, so that no chain or circle of copies can be made. */
export function isSource({ metadata }: ConfigMap): boolean {
  return metadata?.annotations?.[TO] !== undefined && metadata.annotations[FROM] === undefined;
}

/** The source of a copy; `undefined` for any other ConfigMap, and for an annotation that names none. */
export function sourceOf({ metadata }: ConfigMap): string | undefined {
  const from = metadata?.annotations?.[FROM];
  return from !== undefined && /^[^/]+\/[^/]+$/.test(from) ? from : undefined;
}

function targetsOf(object: ConfigMap | undefined, namespaces: readonly Namespace[]): readonly string[] {
  if (object === undefined || !isSource(object) || object.metadata?.deletionTimestamp) return [];
  const names = (object.metadata?.annotations?.[TO] ?? "").split(",");
  const wanted = new Set(names.map((name) => name.trim()));
  // A namespace that is being deleted takes nothing new.
  return namespaces
    .filter(({ status }) => status?.phase !== "Terminating")
    .map(({ metadata }) => metadata?.name ?? "")
    .filter((name) => name !== spaceOf(object) && (wanted.has("*") || wanted.has(name)))
    .sort();
}

function newCopy(source: ConfigMap | undefined, namespace: string, from: string): ConfigMap {
  const name = source?.metadata?.name ?? "";
  return withContent({ metadata: { name, namespace, annotations: { [FROM]: from } } }, source);
}

/** All else of the copy stays, unknown fields included. It is never `immutable`, as it must follow its source. */
function withContent(
  { data: _data, binaryData: _binaryData, ...copy }: ConfigMap,
  source: ConfigMap | undefined,
): ConfigMap {
  const { data, binaryData } = source ?? {};
  return { ...copy, ...(data && { data }), ...(binaryData && { binaryData }) };
}

function isSameContent(a: ConfigMap, b: ConfigMap | undefined): boolean {
  return isSame(a.data, b?.data) && isSame(a.binaryData, b?.binaryData);
}

function isSame(a: Readonly<Record<string, string>> = {}, b: Readonly<Record<string, string>> = {}): boolean {
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => a[name] === b[name]);
}

function spaceOf({ metadata }: ConfigMap): string {
  return metadata?.namespace ?? "";
}
