import type { DocumentRules } from "@berth/host";
import type { Clock } from "@berth/runtime";
import type { MarkId } from "../node/mark.ts";
import { compileGates, declaredPlaces, gateRules, refusedBy } from "./compile.ts";
import type { StartupGateSpec } from "./document.ts";
import type { Gate, Gates } from "./gate.ts";

/**
 * How long admission may go on with a gate that is gone: until its objects are deleted, and the API server has noticed,
 * which it does within a second or so. Milliseconds.
 */
export const GONE_MS = 60_000;

/**
 * As `gateRules`, with a memory of the gates before: of those that are not there any more, or have another taint.
 *
 * @returns also what forgets gates that have been gone for `GONE_MS`, and says whether there were any: then the gates are
 *   compiled again.
 */
export function createGateRules(clock: Pick<Clock, "monotonic">): {
  readonly rules: DocumentRules<StartupGateSpec, Gates>;
  readonly forget: () => boolean;
} {
  /** Places that gates of this process have declared: the taint of a deleted gate has to come off. */
  const declared = new Set<MarkId>();
  /** By rule: gates as they were last in force, those that have a fault now included. */
  const last = new Map<string, Gate>();
  /** Until when each is remembered: monotonic ms. */
  let gone: readonly { readonly gate: Gate; readonly untilMs: number }[] = [];
  /** @returns whether there are more than before. */
  const note = (gates: Gates): boolean => {
    const inForce = new Map(gates.gates.map((gate) => [gate.rule, gate]));
    const refused = refusedBy(gates);
    const untilMs = clock.monotonic() + GONE_MS;
    for (const [rule, gate] of last) {
      if (inForce.get(rule)?.taintId === gate.taintId || refused.has(rule)) continue;
      gone = [...gone.filter((it) => it.gate.taintId !== gate.taintId), { gate, untilMs }];
      last.delete(rule);
    }
    for (const [rule, gate] of inForce) last.set(rule, gate);
    return gone.some((it) => it.untilMs === untilMs);
  };
  return {
    rules: {
      ...gateRules,
      compile(known) {
        const compile = (): Gates =>
          compileGates({ ...known, declaredBefore: declared, gone: gone.map(({ gate }) => gate) });
        let gates = compile();
        if (note(gates)) gates = compile();
        for (const id of declaredPlaces(gates)) declared.add(id);
        return gates;
      },
    },
    forget() {
      const left = gone.filter(({ untilMs }) => clock.monotonic() < untilMs);
      const isLess = left.length < gone.length;
      gone = left;
      return isLess;
    },
  };
}
