import type { DocumentRules } from "@berth/host";
import type { Clock } from "@berth/runtime";
import type { MarkId } from "../node/mark.ts";
import { compileGates, declaredPlaces, gateRules } from "./compile.ts";
import type { StartupGateSpec } from "./document.ts";
import type { Gate, Gates } from "./gate.ts";

/**
 * How long admission may go on with a gate that is gone: until its objects are deleted, and the API server has noticed,
 * which it does within a second or so. Milliseconds.
 */
export const GONE_MS = 60_000;

export interface TimedGateRules {
  readonly rules: DocumentRules<StartupGateSpec, Gates>;
  /** Forgets gates that have been gone for `GONE_MS`. @returns whether there were any: then the gates are compiled again. */
  readonly forget: () => boolean;
}

/** As `gateRules`, with a memory of the gates before. */
export function createGateRules(clock: Pick<Clock, "monotonic">): TimedGateRules {
  /** Places that gates of this process have declared: the taint of a deleted gate has to come off. */
  const declared = new Set<MarkId>();
  const gone = new GoneGates(clock);
  return {
    rules: {
      ...gateRules,
      compile(known) {
        const compile = (): Gates => compileGates({ ...known, declaredBefore: declared, gone: gone.gates });
        let gates = compile();
        if (gone.note(gates)) gates = compile();
        for (const id of declaredPlaces(gates)) declared.add(id);
        return gates;
      },
    },
    forget: () => gone.forget(),
  };
}

/** Remembers for a while which gates are not there any more, or have another taint. */
class GoneGates {
  readonly #clock: Pick<Clock, "monotonic">;
  /** By rule: gates as they were last in force, those that have a fault now included. */
  readonly #last = new Map<string, Gate>();
  /** Until when each is remembered: monotonic ms. */
  #gone: readonly { readonly gate: Gate; readonly untilMs: number }[] = [];

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  get gates(): readonly Gate[] {
    return this.#gone.map(({ gate }) => gate);
  }

  /** @returns whether there are more than before. */
  note({ gates, faults }: Gates): boolean {
    const inForce = new Map(gates.map((gate) => [gate.rule, gate]));
    const refused = new Set(faults.map(({ source, name }) => `${source}/${name}`));
    const untilMs = this.#clock.monotonic() + GONE_MS;
    for (const [rule, gate] of this.#last) {
      const now = inForce.get(rule);
      if (now?.taintId === gate.taintId || (now === undefined && refused.has(rule))) continue;
      this.#gone = [
        ...this.#gone.filter(({ gate: { taintId } }) => taintId !== gate.taintId),
        { gate, untilMs },
      ];
      this.#last.delete(rule);
    }
    for (const [rule, gate] of inForce) this.#last.set(rule, gate);
    return this.#gone.some((it) => it.untilMs === untilMs);
  }

  /** @returns whether there are fewer than before. */
  forget(): boolean {
    const nowMs = this.#clock.monotonic();
    const left = this.#gone.filter(({ untilMs }) => nowMs < untilMs);
    const isLess = left.length < this.#gone.length;
    this.#gone = left;
    return isLess;
  }
}
