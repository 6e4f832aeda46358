/**
 * Expressions in CEL that all capabilities use, as the API server evaluates them on the object that is created. Texts of
 * documents only ever come in as quoted literals.
 */
import type { Selector } from "@berth/host";
import type { MatchCondition } from "@berth/kube";
import { type Requirement, requirementsOf } from "./selector.ts";

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

/** What `matchesSelector` says, as expressions of which all have to hold. */
export function selectorCel(selector: Selector): readonly string[] {
  return requirementsOf(selector).map(requirementCel);
}

function requirementCel({ key, operator, values = [] }: Requirement): string {
  switch (operator) {
    case "In":
      return isOneOf(key, values);
    case "NotIn":
      return `!${isOneOf(key, values)}`;
    case "Exists":
      return hasLabelCel(key);
    case "DoesNotExist":
      return `!${hasLabelCel(key)}`;
    default:
      return "false";
  }
}

function labelCel(key: string): string {
  return `object.metadata.?labels[?${celText(key)}]`;
}

/** Whether it has the label, whatever the value. */
export function hasLabelCel(key: string): string {
  return `${labelCel(key)}.hasValue()`;
}

function isOneOf(key: string, values: readonly string[]): string {
  return `${labelCel(key)}.optMap(it, it in ${celTexts(values)}).orValue(false)`;
}

/** Whether one of them selects the object; nothing to be asked when one selects every object. */
export function selectedByAny(selectors: readonly Selector[]): readonly MatchCondition[] {
  const all = selectors.map(selectorCel);
  if (all.some((conditions) => conditions.length === 0)) return [];
  const expression = all.map((conditions) => `(${conditions.join(" && ")})`).join(" ||\n");
  return [{ name: "selected", expression }];
}
