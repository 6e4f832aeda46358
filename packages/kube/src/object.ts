/**
 * The fields of every object on the wire. Objects stay exactly the JSON that the server sent: no model classes, no
 * dates, no renamed fields. So a field unknown to this release survives every read and write.
 */

/** `metadata.ownerReferences[]`. */
export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

/** One entry of `metadata.managedFields`: the last writer of some fields, and its operation. */
export interface ManagedFieldsEntry {
  readonly manager?: string;
  readonly operation?: string;
  readonly apiVersion?: string;
  /** RFC 3339, whole seconds. */
  readonly time?: string;
  readonly fieldsType?: string;
  readonly fieldsV1?: Readonly<Record<string, unknown>>;
  readonly subresource?: string;
}

/** `metadata` of an object. Times are RFC 3339 strings, parsed where they are used. */
export interface ObjectMeta {
  readonly name?: string;
  readonly generateName?: string;
  readonly namespace?: string;
  readonly uid?: string;
  /** Opaque; ordered only within one resource of one server (see `compareResourceVersions`). */
  readonly resourceVersion?: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly deletionGracePeriodSeconds?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  readonly ownerReferences?: readonly OwnerReference[];
  readonly managedFields?: readonly ManagedFieldsEntry[];
}

/** Any object of the API. `apiVersion` and `kind` are absent on the items of a list, as on the wire. */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: ObjectMeta;
}

/** One answer of a LIST: a whole collection, or one page of it when `metadata.continue` is set. */
export interface List<T extends KubeObject> {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: {
    readonly resourceVersion?: string;
    readonly continue?: string;
    readonly remainingItemCount?: number;
  };
  readonly items: readonly T[];
}

/** Where an object lives inside one cluster. `namespace` is `""` for cluster-scoped objects. */
export interface ObjectName {
  readonly namespace?: string;
  readonly name: string;
}

/** `namespace/name`, of metadata or of a reference. `/name` where there is no namespace. */
export function pathOf(of?: Partial<ObjectName>): string {
  return `${of?.namespace ?? ""}/${of?.name ?? ""}`;
}

/**
 * Orders two resourceVersions of the same resource on the same server: negative when `a` is older.
 * Since Kubernetes 1.35 resourceVersions are documented as comparable decimal integers (KEP-5504); they exceed
 * 2^53, so they are compared by length, then as text.
 *
 * @returns `undefined` when either is not a decimal integer (an aggregated API may send anything).
 */
export function compareResourceVersions(a: string, b: string): number | undefined {
  if (!/^[0-9]+$/.test(a) || !/^[0-9]+$/.test(b)) return undefined;
  const [x, y] = [a.replace(/^0+/, ""), b.replace(/^0+/, "")];
  if (x.length !== y.length) return x.length - y.length;
  return x < y ? -1 : x > y ? 1 : 0;
}
