/** Computes it when it is asked for, and once: a decision looks at few of the cells, and often at these. */
export function once<T>(compute: () => T): () => T {
  let known: { readonly value: T } | undefined;
  return () => (known ??= { value: compute() }).value;
}
