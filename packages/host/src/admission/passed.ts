/** Objects that came without admission, though everything said that it works. */
import type { KubeObject } from "@berth/kube";
import type { Change, Clock } from "@berth/runtime";
import type { BoundRules } from "./rules.ts";

export interface PassedWatch {
  /** What leads to admission has changed: for a while nothing can be told. */
  changed(): void;
  /** @returns whether `problem` says something else. */
  seen(change: Change<KubeObject>): boolean;
  /** In words; `undefined` when the last object that tells had come through. */
  problem(): string | undefined;
}

/** API servers take a change over within about a second, and clocks differ. Milliseconds. */
const RELIED_AFTER_MS = 10_000;

/**
 * An API server that cannot reach a webhook tells nobody but its log, and a policy may be switched off with its feature. An
 * object without what admission gives tells, until one comes with it.
 */
export function createPassedWatch(
  { passed }: Pick<BoundRules, "passed">,
  { works, clock }: { readonly works: () => boolean; readonly clock: Clock },
): PassedWatch {
  let changedAt = clock.now();
  let missed: string | undefined;
  return {
    changed() {
      changedAt = clock.now();
      missed = undefined;
    },
    seen({ type, object, ...change }) {
      const reliedAt = changedAt + RELIED_AFTER_MS;
      if (type !== "added" || ("initial" in change && change.initial) || clock.now() < reliedAt) return false;
      // Not of an older one, which is only seen late.
      if (Date.parse(object.metadata?.creationTimestamp ?? "") < reliedAt) return false;
      const said = passed?.(object);
      if (said === undefined || (said === true && missed === undefined) || !works()) return false;
      const before = missed;
      missed = said === true ? undefined : said;
      return (missed === undefined) !== (before === undefined);
    },
    problem: () => missed,
  };
}
