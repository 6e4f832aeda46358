import type { DocumentRules } from "@berth/host";
import type { Clock } from "@berth/runtime";
import type { MarkId } from "../node/mark.ts";
import { refusedRules } from "../node/sources.ts";
import { compileGates, declaredPlaces, gateRules } from "./compile.ts";
import type { StartupGateSpec } from "./document.ts";
import type { Gate, Gates } from "./gate.ts";

/**
 * How long admission may still use a gate that is gone, ms. Berth deletes its admission objects first. Then the API
 * server notices the deletion, usually within about a second.
 */
export const GONE_MS = 60_000;

/**
 * Adds to `gateRules` a memory of earlier gates: those that are gone, or whose taint has changed.
 *
 * @returns also `forget`, which drops gates that have been gone for `GONE_MS`. It returns true if it dropped any: the
 * caller then compiles the gates again.
 */
export function createGateRules(clock: Pick<Clock, "monotonic">): {
  readonly rules: DocumentRules<StartupGateSpec, Gates>;
  readonly forget: () => boolean;
} {
  /** Places that gates of this process have declared: Berth must remove the taint of a deleted gate. */
  const declared = new Set<MarkId>();
  /** By rule: each gate as it was last in force, also a gate that has a fault now. */
  const last = new Map<string, Gate>();
  /** Gates to remember until the given time, monotonic ms. */
  let gone: readonly { readonly gate: Gate; readonly untilMs: number }[] = [];
  /** @returns whether it added a gate to `gone`. */
  const note = (gates: Gates): boolean => {
    const inForce = new Map(gates.gates.map((gate) => [gate.rule, gate]));
    const refused = refusedRules(gates.gates, gates.faults);
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
      tryOut: gateRules.compile,
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
