/** What of an admission request is looked at. */
export interface AdmissionQuestion {
  readonly kind: { readonly kind: string };
  readonly operation: string;
  readonly object?: unknown;
  /** What is stored, for UPDATE. */
  readonly oldObject?: unknown;
}
