/**
 * The rules of the startup gate in CEL. The API server evaluates them on the object that is created. Each equals its
 * counterpart in TypeScript. Texts of gates appear only as quoted literals.
 */
import { celText, celTexts } from "@berth/host";
import { hasLabelCel, podTolerations, selectorCel } from "../node/cel.ts";
import type { Gate } from "./gate.ts";
import { controlPlaneKeys } from "./selection.ts";

export type CelTaint = Gate["spec"]["taint"];

/** The taints of the node, none when it has none. */
export const nodeTaints = "object.spec.?taints.orValue([])";

/** `isGatedAtCreation` as one expression. */
export function gatedCel({ spec }: Gate): string {
  const all = [...selectorCel(spec.nodeSelector)];
  if (spec.controlPlane === "Skip") {
    const keys = celTexts(controlPlaneKeys);
    all.push(...controlPlaneKeys.map((key) => `!${hasLabelCel(key)}`));
    all.push(`!${nodeTaints}.exists(it, it.key in ${keys})`);
  }
  if (spec.admissionExcept !== undefined) all.push(`!(${allCel(selectorCel(spec.admissionExcept))})`);
  return allCel(all);
}

function allCel(expressions: readonly string[]): string {
  return expressions.length === 0 ? "true" : expressions.join(" && ");
}

/** Does a variable hold a taint with the same key and effect, whatever its value? */
export function samePlaceCel(variable: string, { key, effect }: CelTaint): string {
  return `${variable}.key == ${celText(key)} && ${variable}.effect == ${celText(effect)}`;
}

/** Does the node have exactly this taint? */
export function standsCel(taint: CelTaint): string {
  const value = `it.?value.orValue("") == ${celText(taint.value)}`;
  return `${nodeTaints}.exists(it, ${samePlaceCel("it", taint)} && ${value})`;
}

/** `tolerates` for the pods of the DaemonSet. */
export function toleratedCel({ key, value, effect }: CelTaint): string {
  const operator = 'it.?operator.orValue("")';
  const equal = `${operator} in ["", "Equal"] && it.?value.orValue("") == ${celText(value)}`;
  return (
    `${podTolerations}.exists(it, it.?effect.orValue("") in ["", ${celText(effect)}] && ` +
    `it.?key.orValue("") in ["", ${celText(key)}] && (${operator} == "Exists" || ${equal}))`
  );
}
