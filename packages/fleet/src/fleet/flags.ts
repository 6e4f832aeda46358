/** A fleet from the flags of `berth run`. */
import { type FleetSpec, fleetKind } from "./document.ts";

export interface FleetFlags {
  readonly mode?: string;
  readonly cell?: string;
}

/** `undefined`: neither the flags nor the document ask for a fleet. `problem`: a sentence for the user. */
export function fleetOfFlags(
  { mode, cell }: FleetFlags,
  document: FleetSpec | undefined,
): { readonly spec: FleetSpec } | { readonly problem: string } | undefined {
  if (document !== undefined) {
    const asked = Object.entries({ mode, cell }).find(
      ([field, value]) => value !== undefined && value !== document[field as "mode" | "cell"],
    );
    if (asked === undefined) return { spec: document };
    const [field, value] = asked;
    return { problem: `--${field} ${value}: the document Fleet says ${document[field as "mode" | "cell"]}` };
  }
  if (mode === undefined)
    return cell === undefined ? undefined : { problem: `--cell ${cell} needs --mode cell` };
  const parsed = fleetKind.spec.safeParse({ mode, ...(cell !== undefined && { cell }) });
  if (parsed.success) return { spec: parsed.data };
  const [issue] = parsed.error.issues;
  return { problem: `--mode ${mode}: ${issue?.path.join(".")} ${issue?.message}` };
}
