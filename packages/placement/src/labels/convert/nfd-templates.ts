/** What is converted of the templates of Node Feature Discovery (NFD). */
import type { NfdRule, NfdTerm } from "./nfd-schema.ts";

/** `{{ range .system.osrelease }}os-{{ .Name }}={{ .Value }}`, a line feed, `{{ end }}`. */
const COPIES =
  /\{\{ *range \.([a-z]+\.[a-z]+) *\}\}([^\s={}]*)\{\{ *\.Name *\}\}([^\s={}]*)=\{\{ *\.Value *\}\} *\n\s*\{\{ *end *\}\}/g;

/** Replaces each loop over the elements that its condition names by a line `name=@feature.element` for each of them. */
export function unroll(template: string, rule: NfdRule): string {
  return template.replaceAll(COPIES, (loop, feature: string, before: string, after: string) => {
    const { matchExpressions = {}, matchName } = onlyTermOf(feature, rule) ?? {};
    const compared = Object.entries(matchExpressions);
    // NFD makes a label without a value of an element that need not exist.
    if (compared.some(([, { op }]) => op === "DoesNotExist" || op === "")) return loop;
    const listed = matchName?.op === "In" ? (matchName.value ?? []) : [];
    const names = new Set([...compared.map(([name]) => name), ...listed]);
    if (names.size === 0) return loop;
    return [...names].map((name) => `${before}${name}${after}=@${feature}.${name}\n`).join("");
  });
}

/** The only condition on the feature; its case counts in templates. NFD executes the template for each alternative. */
export function onlyTermOf(
  feature: string | undefined,
  { matchFeatures = [], matchAny }: NfdRule,
): NfdTerm | undefined {
  const [term, ...others] = matchFeatures.filter((it) => it.feature === feature);
  return others.length > 0 || matchAny !== undefined ? undefined : term;
}
