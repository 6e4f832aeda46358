import { type LabelOptions, labelOptionsSchema } from "@berth/placement";
import * as z from "zod";

/** `apiVersion` of every configuration document. */
export const API_VERSION = "berth.dev/v1alpha1";

/** Where label rules come from: a folder as `--label-dir` takes it. */
export interface LabelFolderSpec extends LabelOptions {
  /** Relative paths start at the folder of the document's own file. */
  readonly path: string;
}

const allowReserved: z.ZodType<LabelOptions["allowReserved"]> = z
  .unknown()
  .optional()
  .transform((value, context) => {
    const parsed = labelOptionsSchema.safeParse(value === undefined ? {} : { allowReserved: value });
    if (parsed.success) return parsed.data.allowReserved;
    for (const { message, path } of parsed.error.issues) {
      context.addIssue({ code: "custom", message, path: path.slice(1) });
    }
    return z.NEVER;
  });

const labelFolder: z.ZodType<LabelFolderSpec> = z.strictObject({
  path: z.string().min(1, "must not be empty"),
  allowReserved,
});

/** The `spec` of each kind. A new kind is a line here and its schema in `kinds`. */
export interface Specs {
  readonly LabelFolder: LabelFolderSpec;
}

export type Kind = keyof Specs;

export const kinds: { readonly [K in Kind]: z.ZodType<Specs[K]> } = {
  LabelFolder: labelFolder,
};

/** A document that was read and found right. */
export type ConfigDocument = {
  readonly [K in Kind]: { readonly kind: K; readonly name: string; readonly spec: Specs[K] };
}[Kind];

export function isKind(name: unknown): name is Kind {
  return typeof name === "string" && Object.hasOwn(kinds, name);
}
