/** Does this for many, eight at a time. */
export async function each<T>(all: Iterable<T>, work: (one: T) => Promise<unknown>): Promise<void> {
  const left = all[Symbol.iterator]();
  const worker = async (): Promise<void> => {
    for (let next = left.next(); next.done !== true; next = left.next()) await work(next.value);
  };
  await Promise.all(Array.from({ length: 8 }, worker));
}
