import type { ObjectKey, Source } from "@berth/runtime";

/** A source of all keys when the controller starts, and of keys that other code asks for while it runs. */
export interface KeySource extends Source<ObjectKey> {
  /** Ignored while the controller does not run: a replica that does not lead collects no keys. */
  ask(keys: Iterable<ObjectKey>, priority?: "high" | "low"): void;
}

export function createKeySource(all: () => Iterable<ObjectKey>): KeySource {
  let enqueue: Parameters<Source<ObjectKey>["start"]>[0] | undefined;
  const ask = (keys: Iterable<ObjectKey>, priority: "high" | "low" = "low"): void => {
    if (enqueue !== undefined) for (const key of keys) enqueue(key, { priority });
  };
  return {
    ask,
    start(given) {
      enqueue = given;
      ask(all());
      return { [Symbol.dispose]: () => (enqueue = undefined) };
    },
  };
}
