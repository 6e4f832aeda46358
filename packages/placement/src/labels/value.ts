/** The values of labels that a rule sets: fixed, copied from a fact, or built from a template. */

import type { OnFault } from "./condition.ts";
import {
  type FactSource,
  factKeyProblem,
  factSources,
  type LabelOutput,
  type ValueFrom,
} from "./document.ts";
import type { Fact, FactRef, ReadFact } from "./facts.ts";
import { compilePattern, MAX_TEXT } from "./pattern.ts";

export interface LabelValue {
  /** `undefined` when a fact is absent: Berth then does not set the label. */
  of(read: ReadFact): Fact;
  readonly reads: readonly FactRef[];
}

/** The label value of a rule that gives none. */
export const DEFAULT_VALUE = "true";

export function fixedValue(value: string): LabelValue {
  return { of: () => value, reads: [] };
}

/** Reports faults to `onFault`. The caller must not use a value with a fault. */
export function compileValue(output: LabelOutput, onFault: OnFault): LabelValue {
  const { value, valueFrom, valueTemplate, sanitize = false } = output;
  const finish = sanitize ? sanitized : (found: LabelValue): LabelValue => found;
  if (valueFrom !== undefined) return finish(compileCopy(valueFrom, onFault));
  if (valueTemplate !== undefined) return finish(compileTemplate(valueTemplate, onFault));
  return fixedValue(value ?? DEFAULT_VALUE);
}

function compileCopy({ source = "Label", key, pattern }: ValueFrom, onFault: OnFault): LabelValue {
  const reads: readonly FactRef[] = [{ source, key }];
  if (pattern === undefined) return { of: (read) => read(source, key), reads };
  const compiled = compilePattern(pattern);
  if (typeof compiled === "string") {
    onFault({ path: ["valueFrom", "pattern"], message: compiled });
    return { of: () => undefined, reads };
  }
  return {
    of(read) {
      const fact = read(source, key);
      return typeof fact === "string" ? compiled.capture(fact) : fact;
    },
    reads,
  };
}

const PLACEHOLDER = /\$\{([^}]*)\}/g;

function compileTemplate(template: string, onFault: OnFault): LabelValue {
  const parts: (string | FactRef)[] = [];
  let end = 0;
  for (const match of template.matchAll(PLACEHOLDER)) {
    const ref = parseFactRef(match[1] ?? "");
    if (typeof ref === "string") onFault({ path: ["valueTemplate"], message: `${match[0]}: ${ref}` });
    else parts.push(template.slice(end, match.index), ref);
    end = match.index + match[0].length;
  }
  const rest = template.slice(end);
  if (rest.includes("${")) onFault({ path: ["valueTemplate"], message: "`${` without a `}`" });
  parts.push(rest);
  return {
    of(read) {
      let text = "";
      for (const part of parts) {
        const fact = typeof part === "string" ? part : read(part.source, part.key);
        if (typeof fact !== "string") return fact;
        // A template can repeat a long annotation, so limit each part. A label value is much shorter anyway.
        text += fact.slice(0, MAX_TEXT);
      }
      return text;
    },
    reads: parts.filter((part) => typeof part !== "string"),
  };
}

function parseFactRef(text: string): FactRef | string {
  const slash = text.indexOf("/");
  const source = text.slice(0, slash) as FactSource;
  const key = text.slice(slash + 1);
  if (slash < 0 || key === "" || !factSources.some((it) => it === source)) {
    return `expected a source and a key such as Label/example.com/gpu; sources are ${factSources.join(", ")}`;
  }
  return factKeyProblem(source, key) ?? { source, key };
}

const MAX_VALUE = 63;

/** Replaces invalid characters by `_`, trims both ends to a letter or digit, and limits the length to 63. */
export function sanitizeValue(text: string): string {
  return text
    .slice(0, MAX_TEXT)
    .replace(/[^-A-Za-z0-9_.]/g, "_")
    .replace(/^[^A-Za-z0-9]+/, "")
    .slice(0, MAX_VALUE)
    .replace(/[^A-Za-z0-9]+$/, "");
}

function sanitized(value: LabelValue): LabelValue {
  return {
    of(read) {
      const fact = value.of(read);
      return typeof fact === "string" ? sanitizeValue(fact) : fact;
    },
    reads: value.reads,
  };
}
