/** What a decision knows about an object that may not have been read. */
export type Seen<T> =
  | { readonly is: "there"; readonly value: T }
  | { readonly is: "none" }
  /** Nothing may follow from its absence. `because` is a sentence for people. */
  | { readonly is: "unknown"; readonly because: string };

export function seenOf<T>(value: T | undefined): Seen<T> {
  return value === undefined ? { is: "none" } : { is: "there", value };
}
