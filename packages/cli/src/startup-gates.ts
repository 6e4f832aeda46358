import {
  type CompileInput,
  compileGates,
  declaredPlaces,
  type Gate,
  type Gates,
  type MarkId,
  reasons,
  type StartupGateSpec,
  startupGateSpec,
  startupGates,
} from "@berth/placement";
import type { Clock } from "@berth/runtime";
import { DocumentHub } from "./document-hub.ts";
import { assembleDocuments, type DocumentKind } from "./document-kind.ts";

export const gateDocuments: DocumentKind<StartupGateSpec, Gates, Omit<CompileInput, "sources">> = {
  resource: startupGates,
  schema: startupGateSpec,
  located: (settings) => settings.startupGates,
  compile: compileGates,
  faultsOf: ({ faults }) => faults.map(({ gate: name, ...fault }) => ({ ...fault, name })),
};

export interface GateHubOptions {
  readonly clock: Pick<Clock, "monotonic">;
  /** Gates came into force or ceased to be. */
  readonly onChange: (gates: Gates) => void;
}

export interface GateHub {
  readonly hub: DocumentHub<StartupGateSpec, Gates>;
  /** What was remembered for a while of gates that are gone is forgotten when it is over. Nobody has to look again. */
  readonly forgetGone: () => void;
}

export function createGateHub({ clock, onChange }: GateHubOptions): GateHub {
  /** What gates of this process have declared: the taint of one that is deleted has to come off. */
  const declared = new Set<MarkId>();
  const gone = new GoneGates(clock);
  const hub = new DocumentHub<StartupGateSpec, Gates>({
    kind: gateDocuments,
    assemble({ unsettled, ...sources }) {
      const assemble = (): Gates | undefined =>
        assembleDocuments(gateDocuments, sources, { declaredBefore: declared, gone: gone.gates, unsettled });
      let gates = assemble();
      if (gates !== undefined && gone.note(gates)) gates = assemble();
      for (const id of gates === undefined ? [] : declaredPlaces(gates)) declared.add(id);
      return gates;
    },
    reason: reasons.GateInForce,
    remarks: unknownBefore,
    onChange,
  });
  return {
    hub,
    forgetGone() {
      if (gone.forget()) hub.renew();
    },
  };
}

/**
 * How long admission may go on with a gate that is gone: until its objects are deleted, and the API server has noticed,
 * which it does within a second or so. Milliseconds.
 */
export const GONE_MS = 60_000;

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
    const refused = new Set(faults.map(({ source, gate }) => `${source}/${gate}`));
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

/** A gate that is not there is not waited for; it may only be misspelt. */
function unknownBefore(name: string, { gates }: Gates): readonly string[] {
  const names = new Set(gates.map((gate) => gate.name));
  const gate = gates.find(({ rule }) => rule === `cluster/${name}`);
  const unknown = gate?.spec.after.filter((one) => !names.has(one)) ?? [];
  return unknown.length === 0 ? [] : [`not in force, and so not waited for: ${unknown.join(", ")}`];
}
