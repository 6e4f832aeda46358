/** The fields of an admission request that Berth reads. */
export interface AdmissionQuestion {
  readonly kind: { readonly kind: string };
  readonly operation: string;
  readonly object?: unknown;
  /** The stored object; only for UPDATE. */
  readonly oldObject?: unknown;
}
