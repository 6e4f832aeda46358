/** What the schemas of all our kinds have in common. */
import type * as z from "zod";

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
