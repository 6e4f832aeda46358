/** What the conversions of single documents have in common. */
import { type Fault, faultsOfDocument, type YamlDocument } from "@berth/host";
import { type Conversion, type ConvertedRule, convertReasons } from "@berth/placement";
import type * as z from "zod";

export interface ConvertedDocument
  extends Pick<ConvertedRule<object>, "name" | "spec" | "leftOut" | "notes"> {
  readonly kind: string;
  /** Of `spec`. */
  readonly schema: z.ZodType;
}

/** What of the given document becomes no document at all, and why. */
export type Left = { readonly dropped: string };

/**
 * Reads a document by a strict schema, so that a field which Berth does not know is a fault, and reports each part that
 * is left out.
 */
export function convertWith<T>(
  {
    file,
    yaml,
    schema,
    title,
  }: {
    readonly file: string;
    readonly yaml: YamlDocument;
    readonly schema: z.ZodType<T>;
    /** The kind and the name, for messages. */
    readonly title: (document: T) => string;
  },
  convert: (document: T) => readonly (ConvertedDocument | Left)[],
): Conversion<object> {
  const parsed = schema.safeParse(yaml.value);
  if (!parsed.success) {
    const faults = faultsOfDocument(parsed.error, yaml).map((fault) => Object.assign({ file }, fault));
    return { rules: [], dropped: [], faults };
  }
  const from = `${file}:${yaml.positionOf([]).line}: ${title(parsed.data)}`;
  const rules: ConvertedRule<object>[] = [];
  const dropped: { readonly from: string; readonly why: readonly string[] }[] = [];
  const faults: Fault[] = [];
  const tell = (severity: Fault["severity"], reason: string, message: string): void => {
    // Several documents can lack the same part of the original.
    if (faults.some((fault) => fault.message === message)) return;
    faults.push({ file, ...yaml.positionOf([]), severity, reason, message });
  };
  for (const one of convert(parsed.data)) {
    if ("dropped" in one) {
      if (dropped.some(({ why }) => why.includes(one.dropped))) continue;
      dropped.push({ from, why: [one.dropped] });
      tell("error", convertReasons.NotConvertible, `${title(parsed.data)}, not converted: ${one.dropped}`);
      continue;
    }
    const { schema: of, ...rule } = one;
    const wrong = of.safeParse(rule.spec).error?.issues ?? [];
    const invalid = wrong.map(({ path, message }) => `${path.map(String).join(".")}: ${message}`);
    const why = [...rule.leftOut, ...invalid.map((it) => `the ${rule.kind} is not valid: ${it}`)];
    if (invalid.length > 0) dropped.push({ from, why });
    else rules.push({ ...rule, from });
    const how = invalid.length > 0 ? "not converted" : "converted in part";
    if (why.length > 0)
      tell("error", convertReasons.NotConvertible, `${title(parsed.data)}, ${how}: ${why.join("; ")}`);
    if (invalid.length === 0 && rule.notes.length > 0)
      tell("warning", convertReasons.ConvertedWithNote, `${title(parsed.data)}: ${rule.notes.join("; ")}`);
  }
  return { rules, dropped, faults };
}
