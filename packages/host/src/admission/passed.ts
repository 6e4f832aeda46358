/** Detects new objects that were stored without admission, although admission is reported as working. */
import type { KubeObject } from "@berth/kube";
import type { Change, Clock } from "@berth/runtime";
import type { BoundRules } from "./rules.ts";

export interface PassedWatch {
  /** The admission set-up has changed. For a while the watch draws no conclusion from new objects. */
  changed(): void;
  /** @returns whether `problem` changed. */
  seen(change: Change<KubeObject>): boolean;
  /** A sentence. `undefined` when the last conclusive object had passed admission. */
  problem(): string | undefined;
}

/** API servers apply a change within about a second, and clocks differ. Milliseconds. */
const RELIED_AFTER_MS = 10_000;

/**
 * When the API server cannot reach a webhook, only its own log says so. A policy can also be disabled with its feature.
 * So a new object that admission did not change is a problem, until a later object was changed.
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
      // The object was created earlier, and the watch only shows it now.
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
