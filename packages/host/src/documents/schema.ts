/** What the schemas of all our kinds have in common. */
import * as z from "zod";

/** A rule that concerns several fields of an object: one sentence, checked by the API server and by us alike. */
export interface ObjectRule<T> {
  /** In CEL over `self`, for the API server. */
  readonly cel: string;
  /** The same, for files. */
  readonly holds: (value: T) => boolean;
  /** What is wrong when it does not hold, in words. */
  readonly message: string;
  /** The field to point at; default the object itself. */
  readonly field?: string;
}

/** The schema with these rules: in files through `superRefine`, in the CRD as `x-kubernetes-validations`. */
export function withRules<T>(schema: z.ZodType<T>, rules: readonly ObjectRule<T>[]): z.ZodType<T> {
  const validations = rules.map(({ cel, message, field }) => ({
    rule: cel,
    message,
    ...(field === undefined ? {} : { fieldPath: `.${field}` }),
  }));
  return schema
    .superRefine((value, context) => {
      for (const { holds, message, field } of rules) {
        if (!holds(value)) {
          context.addIssue({ code: "custom", message, path: field === undefined ? [] : [field] });
        }
      }
    })
    .meta({ "x-kubernetes-validations": validations });
}

/** How long a text may be, in characters as the API server counts them: code points, and not UTF-16 units. */
export function text({ min = 0, max }: { readonly min?: number; readonly max: number }): z.ZodString {
  return z
    .string()
    .superRefine((value, context) => {
      const length = Array.from(value).length;
      if (length < min) context.addIssue({ code: "custom", message: "must not be empty" });
      if (length > max) context.addIssue({ code: "custom", message: `must have at most ${max} characters` });
    })
    .meta({ ...(min > 0 && { minLength: min }), maxLength: max });
}

const LABEL_NAME = "[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?";
const SUBDOMAIN = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:[.][a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*";

/**
 * The same as patterns, which cost the API server nothing: CEL inside of lists of lists is over its budget. That the
 * part before `/` has at most 253 characters is checked when the document is taken up.
 */
export const labelKeyPattern: RegExp = new RegExp(`^(?:${SUBDOMAIN}/)?${LABEL_NAME}$`);
export const labelValuePattern: RegExp = new RegExp(`^(?:${LABEL_NAME})?$`);

/** `x-kubernetes-validations` that accept what `labelKeyProblem` finds nothing wrong with. */
export const labelKeyValidations: readonly { readonly rule: string; readonly message: string }[] = [
  {
    rule: `self.matches("^(?:${SUBDOMAIN}/)?${LABEL_NAME}$")`,
    message: "must be a label key: a name of at most 63 characters, with a domain and / before it or without",
  },
  { rule: 'self.indexOf("/") <= 253', message: "the part before / has more than 253 characters" },
];

/** `x-kubernetes-validations` that accept what `labelValueProblem` finds nothing wrong with. */
export const labelValueValidations: readonly { readonly rule: string; readonly message: string }[] = [
  {
    rule: `self.matches("^(?:${LABEL_NAME})?$")`,
    message: "must be a label value: letters, digits, -, _ and ., with a letter or digit at both ends",
  },
];
