/**
 * CEL expressions for all capabilities. The API server evaluates them on the created object. Text from documents is
 * always a quoted literal, so it cannot change an expression.
 */
import { celText, celTexts, type Selector } from "@berth/host";
import type { MatchCondition } from "@berth/kube";
import { type Requirement, requirementsOf } from "./selector.ts";

/** The tolerations in the pod template of the DaemonSet; an empty list without any. */
export const podTolerations = "object.spec.template.spec.?tolerations.orValue([])";

/**
 * The same test as `matchesSelector`, as a list of expressions that must all hold.
 *
 * @param of the CEL variable with the labels.
 */
export function selectorCel(selector: Selector, of = "object"): readonly string[] {
  return requirementsOf(selector).map((it) => requirementCel(it, of));
}

function requirementCel({ key, operator, values = [] }: Requirement, of: string): string {
  switch (operator) {
    case "In":
      return isOneOf(key, values, of);
    case "NotIn":
      return `!${isOneOf(key, values, of)}`;
    case "Exists":
      return hasLabelCel(key, of);
    case "DoesNotExist":
      return `!${hasLabelCel(key, of)}`;
    default:
      return "false";
  }
}

function labelCel(key: string, of: string): string {
  return `${of}.metadata.?labels[?${celText(key)}]`;
}

/** True when the object has the label, with any value. */
export function hasLabelCel(key: string, of = "object"): string {
  return `${labelCel(key, of)}.hasValue()`;
}

function isOneOf(key: string, values: readonly string[], of: string): string {
  return `${labelCel(key, of)}.optMap(it, it in ${celTexts(values)}).orValue(false)`;
}

/** A condition that any of the selectors selects the object. Empty when one of them selects every object. */
export function selectedByAny(selectors: readonly Selector[]): readonly MatchCondition[] {
  const all = selectors.map((selector) => selectorCel(selector));
  if (all.some((conditions) => conditions.length === 0)) return [];
  const expression = all.map((conditions) => `(${conditions.join(" && ")})`).join(" ||\n");
  return [{ name: "selected", expression }];
}
