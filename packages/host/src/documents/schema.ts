/** Helpers for the schemas of all kinds. */
import * as z from "zod";

/** A rule about several fields of an object. The API server and Berth both check it, with the same message. */
export interface ObjectRule<T> {
  /** The rule in CEL over `self`, for the API server. */
  readonly cel: string;
  /** The same rule for files. */
  readonly holds: (value: T) => boolean;
  /** The fault as a sentence. */
  readonly message: string;
  /** The field of the fault. Default: the object itself. */
  readonly field?: string;
}

/** Adds rules to a schema: in files with `superRefine`, in the CRD as `x-kubernetes-validations`. */
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

/** A text with limits in code points, as the API server counts them, not in UTF-16 units. */
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

/** A number or a text. A CRD has no union, but an extension for this one. */
export const intOrString: z.ZodType<number | string> = z
  .any()
  .refine((value) => typeof value === "number" || typeof value === "string", "must be a number or a text")
  .meta({ "x-kubernetes-int-or-string": true });

/** Of a text (apimachinery, `resource.Quantity`). */
export const QUANTITY =
  "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$";
const quantityPattern: RegExp = new RegExp(QUANTITY);

/** As in `resources` of a container: a number, or a text such as `500m` or `2Gi`. */
export const quantity: z.ZodType<number | string> = intOrString
  .refine((value) => typeof value === "number" || quantityPattern.test(value), "must be a quantity")
  .meta({ "x-kubernetes-int-or-string": true, pattern: QUANTITY });

const LABEL_NAME = "[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?";
const SUBDOMAIN = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:[.][a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*";

/**
 * The same rules as patterns. They do not use the API server's CEL budget, which CEL in nested lists exceeds. The
 * compilation checks that the part before `/` has at most 253 characters.
 */
export const labelKeyPattern: RegExp = new RegExp(`^(?:${SUBDOMAIN}/)?${LABEL_NAME}$`);
export const labelValuePattern: RegExp = new RegExp(`^(?:${LABEL_NAME})?$`);

/** `x-kubernetes-validations` with the same result as `labelKeyProblem`. */
export const labelKeyValidations: readonly { readonly rule: string; readonly message: string }[] = [
  {
    rule: `self.matches("^(?:${SUBDOMAIN}/)?${LABEL_NAME}$")`,
    message: "must be a label key: a name of at most 63 characters, with a domain and / before it or without",
  },
  { rule: 'self.indexOf("/") <= 253', message: "the part before / has more than 253 characters" },
];

/** `x-kubernetes-validations` with the same result as `labelValueProblem`. */
export const labelValueValidations: readonly { readonly rule: string; readonly message: string }[] = [
  {
    rule: `self.matches("^(?:${LABEL_NAME})?$")`,
    message: "must be a label value: letters, digits, -, _ and ., with a letter or digit at both ends",
  },
];
