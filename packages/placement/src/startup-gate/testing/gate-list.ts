/** Gates for tests of admission: any taint and selector, also such as no schema would let pass. */

import { taintId } from "../../node/mark.ts";
import { compileGates } from "../compile.ts";
import { type StartupGateSpec, startupGateSpec } from "../document.ts";
import type { Gate } from "../gate.ts";
import type { GateList } from "../tolerate.ts";

/** What matters to admission; the rest as the schema fills it in. */
export type GateInit = Partial<Pick<StartupGateSpec, "nodeSelector" | "controlPlane" | "admissionExcept">> & {
  readonly taint?: Partial<StartupGateSpec["taint"]>;
};

/** Gates by name, in this order. Without a taint of its own a gate has that of the contract. */
export function gateList(gates: Readonly<Record<string, GateInit>>): GateList {
  return { gates: Object.entries(gates).map(([name, init]) => makeGate(name, init)) };
}

function makeGate(name: string, { taint, ...init }: GateInit): Gate {
  const spec = startupGateSpec.parse({ minimumHold: "1s" });
  const [gate] = compileGates({ sources: [{ source: "config", documents: [{ name, spec }] }] }).gates;
  if (gate === undefined) throw new Error(`no gate can have the name ${name}`);
  const whole = { ...spec.taint, ...taint };
  return { ...gate, taintId: taintId(whole.key, whole.effect), spec: { ...spec, ...init, taint: whole } };
}
