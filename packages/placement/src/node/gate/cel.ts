/**
 * The rules of the startup gate in CEL, as the API server evaluates them on the object that is created. Each says what
 * its counterpart in TypeScript says; texts of gates only ever come in as quoted literals.
 */
import type { Selector, SelectorRequirement } from "../../api/selector.ts";
import type { Gate } from "./gate.ts";
import { controlPlaneKeys } from "./selection.ts";

/** A taint as a gate has it. */
export interface CelTaint {
  readonly key: string;
  readonly value: string;
  readonly effect: string;
}

/** The taints of the node, none when it has none. */
export const nodeTaints = "object.spec.?taints.orValue([])";

/** The tolerations of the pods of the DaemonSet, none when they have none. */
export const podTolerations = "object.spec.template.spec.?tolerations.orValue([])";

/** A text as a CEL literal that holds nothing but ASCII; half a surrogate pair becomes U+FFFD, as in JSON for Go. */
export function celText(text: string): string {
  return `"${Array.from(text.toWellFormed(), escape).join("")}"`;
}

function escape(character: string): string {
  if (character === '"' || character === "\\") return `\\${character}`;
  const point = character.codePointAt(0) ?? 0;
  if (point >= 0x20 && point < 0x7f) return character;
  const digits = point.toString(16);
  return point > 0xffff ? `\\U${digits.padStart(8, "0")}` : `\\u${digits.padStart(4, "0")}`;
}

/** A list of texts as a CEL literal. */
export function celTexts(texts: readonly string[]): string {
  return `[${texts.map(celText).join(", ")}]`;
}

/** What `isGatedAtCreation` says, as one expression. */
export function gatedCel({ spec }: Gate): string {
  const all = [...selectorCel(spec.nodeSelector)];
  if (spec.controlPlane === "Skip") {
    const keys = celTexts(controlPlaneKeys);
    all.push(...controlPlaneKeys.map((key) => `!${isThere(key)}`));
    all.push(`!${nodeTaints}.exists(it, it.key in ${keys})`);
  }
  if (spec.admissionExcept !== undefined) all.push(`!(${allCel(selectorCel(spec.admissionExcept))})`);
  return allCel(all);
}

function allCel(expressions: readonly string[]): string {
  return expressions.length === 0 ? "true" : expressions.join(" && ");
}

/** What `matchesSelector` says, as expressions of which all have to hold. */
export function selectorCel({ matchLabels = {}, matchExpressions = [] }: Selector): readonly string[] {
  return [
    ...Object.entries(matchLabels).map(([key, value]) => isOneOf(key, [value])),
    ...matchExpressions.map(requirementCel),
  ];
}

function requirementCel({ key, operator, values = [] }: SelectorRequirement): string {
  switch (operator) {
    case "In":
      return isOneOf(key, values);
    case "NotIn":
      return `!${isOneOf(key, values)}`;
    case "Exists":
      return isThere(key);
    case "DoesNotExist":
      return `!${isThere(key)}`;
    default:
      return "false";
  }
}

function labelCel(key: string): string {
  return `object.metadata.?labels[?${celText(key)}]`;
}

function isThere(key: string): string {
  return `${labelCel(key)}.hasValue()`;
}

function isOneOf(key: string, values: readonly string[]): string {
  return `${labelCel(key)}.optMap(it, it in ${celTexts(values)}).orValue(false)`;
}

/** Whether a variable holds a taint in the place of this one, whatever its value. */
export function samePlaceCel(variable: string, { key, effect }: CelTaint): string {
  return `${variable}.key == ${celText(key)} && ${variable}.effect == ${celText(effect)}`;
}

/** Whether exactly this taint stands on the node. */
export function standsCel(taint: CelTaint): string {
  const value = `it.?value.orValue("") == ${celText(taint.value)}`;
  return `${nodeTaints}.exists(it, ${samePlaceCel("it", taint)} && ${value})`;
}

/** What `tolerates` says of the pods of the DaemonSet. */
export function toleratedCel({ key, value, effect }: CelTaint): string {
  const operator = 'it.?operator.orValue("")';
  const equal = `${operator} in ["", "Equal"] && it.?value.orValue("") == ${celText(value)}`;
  return (
    `${podTolerations}.exists(it, it.?effect.orValue("") in ["", ${celText(effect)}] && ` +
    `it.?key.orValue("") in ["", ${celText(key)}] && (${operator} == "Exists" || ${equal}))`
  );
}
