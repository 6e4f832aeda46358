import type { AddOptions, ObjectKey, Source } from "@berth/runtime";

/** A source of all keys when the controller starts, and of keys that other code asks for while it runs. */
export interface KeySource extends Source<ObjectKey> {
  /**
   * Ignored while the controller does not run: a replica that does not lead collects no keys.
   * @param priority default `low`. @param immediate default false. See `AddOptions`.
   */
  ask(
    keys: Iterable<ObjectKey>,
    priority?: AddOptions["priority"],
    immediate?: AddOptions["immediate"],
  ): void;
  /** Asks for all keys that there are now. */
  askAll(): void;
}

/** @param takes whether a key may be asked for now. Where not, all are asked for once it may. Default: all may, always. */
export function createKeySource(
  all: () => Iterable<ObjectKey>,
  takes: (key: ObjectKey) => boolean = () => true,
): KeySource {
  let enqueue: Parameters<Source<ObjectKey>["start"]>[0] | undefined;
  const ask: KeySource["ask"] = (keys, priority = "low", immediate = false) => {
    if (enqueue !== undefined) for (const key of keys) if (takes(key)) enqueue(key, { priority, immediate });
  };
  const askAll = (): void => ask(all());
  return {
    ask,
    askAll,
    start(given) {
      enqueue = given;
      askAll();
      return { [Symbol.dispose]: () => (enqueue = undefined) };
    },
  };
}
